#include "plugins/cpu/outputs.h"

#include <algorithm>

#include "plugins/cpu/selection.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

uint32_t row_count(const ModelShape &shape, const OutputLimits &limits) {
  return shape.has_head ? std::min(OutputStage::kRows, limits.max_outputs) : 0;
}

uint64_t rank_count(const ModelShape &shape, const OutputLimits &limits) {
  return shape.has_head ? static_cast<uint64_t>(limits.threads) * limits.max_k : 0;
}

OutputBounds bounds_of(const ModelShape &shape, const OutputLimits &limits) {
  return {.vocab = shape.vocab, .max_outputs = limits.max_outputs, .max_k = limits.max_k, .has_head = shape.has_head};
}

}  // namespace

OutputStage::OutputStage(const ModelShape &shape, const OutputLimits &limits)
    : shape_(shape),
      limits_(limits),
      normed_(uint64_t{row_count(shape, limits)} * shape.hidden, "outputs"),
      logits_(uint64_t{row_count(shape, limits)} * shape.vocab, "logits"),
      ranks_(rank_count(shape, limits), "outputs"),
      checker_(bounds_of(shape, limits)) {}

uint64_t OutputStage::bytes(const ModelShape &shape, const OutputLimits &limits) {
  const uint64_t rows = row_count(shape, limits);
  return Buffer<float>::bytes(rows * shape.hidden) + Buffer<float>::bytes(rows * shape.vocab) +
         Buffer<uint64_t>::bytes(rank_count(shape, limits)) + OutputChecker::bytes(bounds_of(shape, limits));
}

uint64_t OutputStage::passes(const Request &request) {
  const auto has_logits = [](const bonsai_output *output) { return output->kind != BONSAI_OUTPUT_HIDDEN; };
  const auto rows = std::count_if(request.outputs, request.outputs + request.n, has_logits);
  return (static_cast<uint64_t>(rows) + kRows - 1) / kRows;
}

void OutputStage::run(Threads &threads, const KernelTable &kernels, const Request &request,
                      const Inputs &inputs) const {
  const Model &model = *inputs.model;
  const auto norm = [&](uint32_t row, float *y) {
    const Profile::Span span(*inputs.profile, Phase::kNorm);
    kernels.rms_norm({.x = inputs.x + uint64_t{row} * shape_.hidden,
                      .weight = model.output_norm(),
                      .n = shape_.hidden,
                      .eps = model.rms_eps(),
                      .y = y});
  };
  Group group;
  for (uint32_t i = 0; i < request.n; ++i) {
    const bonsai_output &output = *request.outputs[i];
    if (output.kind == BONSAI_OUTPUT_HIDDEN) {
      norm(output.token, output.hidden);
      if (inputs.selected) inputs.selected[i] = -1;
      continue;
    }
    norm(output.token, normed_.data() + uint64_t{group.n} * shape_.hidden);
    group.outputs[group.n++] = i;
    if (group.n == kRows) {
      run_group(threads, kernels, request, inputs, group);
      group.n = 0;
    }
  }
  if (group.n > 0) run_group(threads, kernels, request, inputs, group);
}

void OutputStage::run_group(Threads &threads, const KernelTable &kernels, const Request &request, const Inputs &inputs,
                            const Group &group) const {
  {
    const Profile::Span span(*inputs.profile, Phase::kHead);
    multiply(threads, kernels,
             {.rows = inputs.model->head(),
              .columns = shape_.hidden,
              .n = group.n,
              .x = normed_.data(),
              .y = logits_.data(),
              .y_stride = shape_.vocab,
              .activations = inputs.activations,
              .next = inputs.model->layer(0).qkv});
  }
  const Profile::Span span(*inputs.profile, Phase::kSelection);
  threads.each_range(group.n, 1, [&](size_t begin, size_t end, int worker) {
    for (size_t row = begin; row < end; ++row) {
      const uint32_t i = group.outputs[row];
      const std::span<float> logits(logits_.data() + row * shape_.vocab, shape_.vocab);
      const int32_t selected = select(kernels, *request.outputs[i], logits, worker);
      if (inputs.selected) inputs.selected[i] = selected;
    }
  });
}

// Writes one output's results; returns the token that it selects, -1 if its kind does not.
int32_t OutputStage::select(const KernelTable &kernels, const bonsai_output &output, std::span<float> logits,
                            int worker) const {
  adjust_logits(output, logits);
  if (output.kind == BONSAI_OUTPUT_LOGITS) {
    std::copy(logits.begin(), logits.end(), output.logits);
    return -1;
  }
  if (output.kind == BONSAI_OUTPUT_ARGMAX) {
    output.top_ids[0] = find_largest(kernels, logits);
    output.top_logits[0] = logits[static_cast<uint32_t>(output.top_ids[0])];
    return output.top_ids[0];
  }
  const std::span<int32_t> ids(output.top_ids, output.k);
  find_top(logits, ids, {ranks_.data() + static_cast<uint64_t>(worker) * limits_.max_k, limits_.max_k});
  const auto logit = [&](int32_t id) { return logits[static_cast<uint32_t>(id)]; };
  std::transform(ids.begin(), ids.end(), output.top_logits, logit);
  std::transform(output.ids, output.ids + output.n_ids, output.id_logits, logit);
  *output.log_sum_exp = log_sum_exp(kernels, logits);
  return ids[0];
}

}  // namespace bonsai::cpu
