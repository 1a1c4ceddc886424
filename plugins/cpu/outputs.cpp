#include "plugins/cpu/outputs.h"

#include <algorithm>
#include <cmath>

#include "plugins/common/failure.h"
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

uint64_t seen_words(const ModelShape &shape) { return shape.has_head ? (shape.vocab + 63) / 64 : 0; }

void check_ids(const int32_t *ids, uint32_t n, uint32_t vocab, const char *name) {
  if (!ids) reject("output->{} is NULL", name);
  for (uint32_t i = 0; i < n; ++i) {
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= vocab) {
      reject("output->{}[{}] is {}, expected 0 to {}", name, i, ids[i], vocab - 1);
    }
  }
}

}  // namespace

OutputStage::OutputStage(const ModelShape &shape, const OutputLimits &limits)
    : shape_(shape),
      limits_(limits),
      normed_(uint64_t{row_count(shape, limits)} * shape.hidden, "outputs"),
      logits_(uint64_t{row_count(shape, limits)} * shape.vocab, "logits"),
      ranks_(rank_count(shape, limits), "outputs"),
      seen_(seen_words(shape), "outputs") {
  std::fill_n(seen_.data(), seen_.size(), uint64_t{0});
}

uint64_t OutputStage::bytes(const ModelShape &shape, const OutputLimits &limits) {
  const uint64_t rows = row_count(shape, limits);
  return Buffer<float>::bytes(rows * shape.hidden) + Buffer<float>::bytes(rows * shape.vocab) +
         Buffer<uint64_t>::bytes(rank_count(shape, limits)) + Buffer<uint64_t>::bytes(seen_words(shape));
}

void OutputStage::check(const Request &request) const {
  if (request.n == 0) return;
  if (!shape_.has_head) reject("n_outputs is {}, expected 0: the session has no head", request.n);
  if (request.n > limits_.max_outputs) {
    reject("n_outputs is {}, expected at most {}, the session's max_outputs", request.n, limits_.max_outputs);
  }
  require_pointer(request.outputs, "outputs");
  for (uint32_t i = 0; i < request.n; ++i) check_output(checked(request.outputs[i], "output"), request.n_rows);
}

void OutputStage::check_output(const bonsai_output &output, uint32_t n_rows) const {
  if (output.token >= n_rows) reject("output->token is {}, expected less than {}", output.token, n_rows);
  if (output.reserved != 0) reject("output->reserved is {}, expected 0", output.reserved);
  switch (output.kind) {
    case BONSAI_OUTPUT_HIDDEN:
      return require_pointer(output.hidden, "output->hidden");
    case BONSAI_OUTPUT_LOGITS:
      require_pointer(output.logits, "output->logits");
      break;
    case BONSAI_OUTPUT_TOP_K:
      check_top(output);
      break;
    case BONSAI_OUTPUT_ARGMAX:
      require_pointer(output.top_ids, "output->top_ids");
      require_pointer(output.top_logits, "output->top_logits");
      break;
    default:
      refuse("output->kind is {}, expected 0 to 3", output.kind);
  }
  check_adjustments(output);
}

void OutputStage::check_top(const bonsai_output &output) const {
  const uint32_t most = std::min(limits_.max_k, shape_.vocab);
  if (output.k == 0 || output.k > most) reject("output->k is {}, expected 1 to {}", output.k, most);
  require_pointer(output.top_ids, "output->top_ids");
  require_pointer(output.top_logits, "output->top_logits");
  require_pointer(output.log_sum_exp, "output->log_sum_exp");
  if (output.n_ids == 0) return;
  check_ids(output.ids, output.n_ids, shape_.vocab, "ids");
  require_pointer(output.id_logits, "output->id_logits");
}

void OutputStage::check_adjustments(const bonsai_output &output) const {
  if (!(output.temperature >= 0) || std::isinf(output.temperature)) {
    reject("output->temperature is {}, expected a finite number from 0", output.temperature);
  }
  if (output.n_adjustments == 0) return;
  check_ids(output.adjust_ids, output.n_adjustments, shape_.vocab, "adjust_ids");
  require_pointer(output.adjust_add, "output->adjust_add");
  require_pointer(output.adjust_repeat, "output->adjust_repeat");
  const int32_t *twice = nullptr;
  for (uint32_t i = 0; i < output.n_adjustments; ++i) {
    const uint32_t id = static_cast<uint32_t>(output.adjust_ids[i]);
    const uint64_t bit = uint64_t{1} << (id % 64);
    if (seen_[id / 64] & bit) twice = output.adjust_ids + i;
    seen_[id / 64] |= bit;
  }
  for (uint32_t i = 0; i < output.n_adjustments; ++i) seen_[static_cast<uint32_t>(output.adjust_ids[i]) / 64] = 0;
  if (twice) reject("output->adjust_ids has {} twice", *twice);
  for (uint32_t i = 0; i < output.n_adjustments; ++i) {
    if (!(output.adjust_repeat[i] > 0)) {
      reject("output->adjust_repeat[{}] is {}, expected more than 0", i, output.adjust_repeat[i]);
    }
  }
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
  multiply(threads, kernels,
           {.rows = inputs.model->head(),
            .columns = shape_.hidden,
            .n = group.n,
            .x = normed_.data(),
            .y = logits_.data(),
            .y_stride = shape_.vocab,
            .activations = inputs.activations});
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
