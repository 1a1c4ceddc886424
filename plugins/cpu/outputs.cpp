#include "plugins/cpu/outputs.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>

#include "plugins/common/failure.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

// Matrices that a head may be stacked of.
constexpr uint64_t kMostParts = 256;

uint32_t row_count(const ModelShape &shape, const OutputLimits &limits) {
  return shape.has_head ? std::min(OutputStage::kRows, limits.max_outputs) : 0;
}

// Of all workers together.
uint64_t worker_rows(const ModelShape &shape, const OutputLimits &limits) {
  return static_cast<uint64_t>(limits.threads) * row_count(shape, limits);
}

// Every part of a head may begin and end within a piece.
uint64_t most_pieces(const ModelShape &shape) {
  return shape.vocab / kPieceRows + 2 * std::min<uint64_t>(shape.vocab, kMostParts);
}

uint64_t sum_count(const ModelShape &shape, const OutputLimits &limits) {
  return row_count(shape, limits) * most_pieces(shape);
}

OutputBounds bounds_of(const ModelShape &shape, const OutputLimits &limits) {
  return {.vocab = shape.vocab, .max_outputs = limits.max_outputs, .max_k = limits.max_k, .has_head = shape.has_head};
}

}  // namespace

OutputStage::OutputStage(const ModelShape &shape, const OutputLimits &limits)
    : shape_(shape),
      limits_(limits),
      normed_(uint64_t{row_count(shape, limits)} * shape.hidden, "outputs"),
      logits_(worker_rows(shape, limits) * piece_elements(1), "logits"),
      states_(worker_rows(shape, limits), "outputs"),
      ranks_(worker_rows(shape, limits) * limits.max_k, "outputs"),
      sums_(sum_count(shape, limits), "outputs"),
      checker_(bounds_of(shape, limits)) {}

uint64_t OutputStage::bytes(const ModelShape &shape, const OutputLimits &limits) {
  const uint64_t rows = row_count(shape, limits), of_workers = worker_rows(shape, limits);
  return Buffer<float>::bytes(rows * shape.hidden) + Buffer<float>::bytes(of_workers * piece_elements(1)) +
         Buffer<RowState>::bytes(of_workers) + Buffer<uint64_t>::bytes(of_workers * limits.max_k) +
         Buffer<ExpSum>::bytes(sum_count(shape, limits)) + OutputChecker::bytes(bounds_of(shape, limits));
}

void OutputStage::check_head(const Model &model) const {
  if (model.head().size() > kMostParts) {
    refuse("model->head lies in {} parts, expected at most {}", model.head().size(), kMostParts);
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

// -------- Logits, piece by piece

// Each piece is adjusted, and looked at for what its row's output wants, by the worker that computed it.
class OutputStage::Sink final : public ProductSink {
 public:
  Sink(const OutputStage &stage, const KernelTable &kernels, const Request &request, const Group &group,
       uint64_t n_pieces)
      : stage_(stage), kernels_(kernels), request_(request), group_(group), n_pieces_(n_pieces) {
    for (auto &least : least_) least.store(kNone, std::memory_order_relaxed);
    for (uint32_t row = 0; row < group.n; ++row) ids_rise_[row] = adjusted_ids_rise(output_of(row));
  }

  void take(int worker, const ProductPiece &piece, const Results &results) override {
    for (uint32_t i = 0; i < results.n; ++i) {
      take_row(worker, piece, results.first + i, {results.y + i * results.stride, piece.outputs});
    }
  }

  bool selects(uint32_t row) const override {
    const bonsai_output &output = output_of(row);
    return output.kind == BONSAI_OUTPUT_ARGMAX ||
           (output.kind == BONSAI_OUTPUT_TOP_K && !output.log_sum_exp && output.n_ids == 0);
  }

  // What adjusts logits never makes the larger of two the smaller one.
  void take_bounds(int worker, uint32_t row, const ProductPiece &piece, std::span<float> bounds) override {
    const auto first_id = static_cast<uint32_t>(piece.first_output);
    adjust_logits(output_of(row), ids_rise_[row], bounds, first_id);
    if (piece.index % kPiecesAlone == 0) exchange_least(worker, row, first_id);
  }

  // What this worker has found rules out logits up to the least of it behind its ids, and logits below that before
  // them, as what another one has found does.
  std::optional<float> least(int worker, uint32_t row, uint64_t first_output) const override {
    const std::optional<float> own = own_least(worker, row, static_cast<uint32_t>(first_output));
    const float of_others = stage_.state(worker, row).below;
    return of_others == kNone || (own && !(of_others > *own)) ? own : of_others;
  }

 private:
  const bonsai_output &output_of(uint32_t row) const { return *request_.outputs[group_.outputs[row]]; }

  std::optional<float> own_least(int worker, uint32_t row, uint32_t first_id) const {
    const RowState &state = stage_.state(worker, row);
    const bonsai_output &output = output_of(row);
    if (output.kind == BONSAI_OUTPUT_ARGMAX) return state.largest.least(first_id);
    return state.top.least(first_id, stage_.ranks(worker, row, output.k));
  }

  // Between all workers, now and then: what others write takes long to read.
  void exchange_least(int worker, uint32_t row, uint32_t first_id) {
    const std::optional<float> own = own_least(worker, row, first_id);
    float of_any = least_[row].load(std::memory_order_relaxed);
    while (own && *own > of_any && !least_[row].compare_exchange_weak(of_any, *own, std::memory_order_relaxed)) {
    }
    stage_.state(worker, row).below = std::nextafter(of_any, kNone);
  }

  void take_row(int worker, const ProductPiece &piece, uint32_t row, std::span<float> logits) const {
    const bonsai_output &output = output_of(row);
    const auto first_id = static_cast<uint32_t>(piece.first_output);
    adjust_logits(output, ids_rise_[row], logits, first_id);
    if (output.kind == BONSAI_OUTPUT_LOGITS) {
      std::copy(logits.begin(), logits.end(), output.logits + first_id);
    } else if (output.kind == BONSAI_OUTPUT_ARGMAX) {
      stage_.state(worker, row).largest.add(kernels_, logits, first_id);
    } else {
      stage_.state(worker, row).top.add(logits, first_id, stage_.ranks(worker, row, output.k));
      if (output.log_sum_exp) stage_.sums_[row * n_pieces_ + piece.index] = exp_sum(kernels_, logits);
      for (uint32_t i = 0; i < output.n_ids; ++i) {
        const uint32_t place = static_cast<uint32_t>(output.ids[i]) - first_id;  // wraps around below first_id
        if (place < logits.size()) output.id_logits[i] = logits[place];
      }
    }
  }

  static constexpr float kNone = -std::numeric_limits<float>::infinity();
  static constexpr uint64_t kPiecesAlone = 8;

  const OutputStage &stage_;
  const KernelTable &kernels_;
  const Request &request_;
  const Group &group_;
  uint64_t n_pieces_;
  std::array<std::atomic<float>, kRows> least_;  // that any worker has found of what a row selects
  std::array<bool, kRows> ids_rise_;             // of a row's output
};

void OutputStage::run_group(Threads &threads, const KernelTable &kernels, const Request &request, const Inputs &inputs,
                            const Group &group) const {
  const Model &model = *inputs.model;
  const uint64_t n_pieces = count_pieces(model.head());
  std::fill_n(states_.data(), states_.size(), RowState());
  {
    const Profile::Span span(*inputs.profile, Phase::kHead);
    Sink sink(*this, kernels, request, group, n_pieces);
    multiply(threads, kernels,
             {.rows = model.head(),
              .columns = shape_.hidden,
              .n = group.n,
              .x = normed_.data(),
              .x_stride = shape_.hidden,
              .y = logits_.data(),
              .y_stride = 0,
              .activations = inputs.activations,
              .next = model.layer(0).qkv,
              .next_sectors = model.qkv_sectors(),
              .sink = &sink});
  }
  const Profile::Span span(*inputs.profile, Phase::kSelection);
  threads.each_range(group.n, 1, [&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      const uint32_t i = group.outputs[row];
      const int32_t selected = finish(kernels, *request.outputs[i], static_cast<uint32_t>(row), n_pieces);
      if (inputs.selected) inputs.selected[i] = selected;
    }
  });
}

OutputStage::RowState &OutputStage::state(int worker, uint32_t row) const {
  return states_[static_cast<uint64_t>(worker) * row_count(shape_, limits_) + row];
}

std::span<uint64_t> OutputStage::ranks(int worker, uint32_t row, uint32_t k) const {
  const uint64_t rows = row_count(shape_, limits_);
  return {ranks_.data() + (static_cast<uint64_t>(worker) * rows + row) * limits_.max_k, k};
}

// Writes one output's results, of what all workers have found; returns the token that it selects, -1 if its kind does
// not.
int32_t OutputStage::finish(const KernelTable &kernels, const bonsai_output &output, uint32_t row,
                            uint64_t n_pieces) const {
  if (output.kind == BONSAI_OUTPUT_LOGITS) return -1;
  RowState &all = state(0, row);
  if (output.kind == BONSAI_OUTPUT_ARGMAX) {
    for (int worker = 1; worker < limits_.threads; ++worker) all.largest.add(state(worker, row).largest);
    output.top_ids[0] = all.largest.id();
    output.top_logits[0] = all.largest.value();
    return output.top_ids[0];
  }
  const std::span<uint64_t> kept = ranks(0, row, output.k);
  for (int worker = 1; worker < limits_.threads; ++worker) {
    all.top.add(state(worker, row).top, ranks(worker, row, output.k), kept);
  }
  all.top.list(kept, {output.top_ids, output.k}, output.top_logits);
  if (output.log_sum_exp) *output.log_sum_exp = log_sum_exp(kernels, {sums_.data() + row * n_pieces, n_pieces});
  return output.top_ids[0];
}

}  // namespace bonsai::cpu
