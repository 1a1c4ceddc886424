#include "plugins/cuda/selection.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace bonsai::cuda {

namespace {

// A round is made for this many outputs, each with a mask, that many adjustments and that many asked-for ids, and for
// any single output whatever it asks for.
constexpr uint64_t kRoundOutputs = 512;
constexpr uint64_t kUsualAdjustments = 1024;
constexpr uint64_t kUsualIds = 64;

constexpr uint64_t kWord = 4;
constexpr uint64_t kRowWords = sizeof(SelectRow) / kWord;
static_assert(sizeof(SelectRow) % kWord == 0);

constexpr uint64_t words_of_adjustments(uint64_t n) { return 3 * n; }

uint64_t mask_words(const SelectionLimits &limits) { return (uint64_t{limits.vocab} + 31) / 32; }

uint64_t bytes_of_words(uint64_t words) { return (words * kWord + 15) / 16 * 16; }

uint64_t chunks_of(const SelectionLimits &limits) { return (uint64_t{limits.vocab} + kSelectChunk - 1) / kSelectChunk; }

uint64_t round_outputs(const SelectionLimits &limits) { return std::min<uint64_t>(limits.max_outputs, kRoundOutputs); }

// In words: of all parameters of a round beside tokens and rows, and of its results.
uint64_t parameter_room(const SelectionLimits &limits) {
  if (limits.max_outputs == 0) return 0;
  const uint64_t usual = mask_words(limits) + words_of_adjustments(kUsualAdjustments) + kUsualIds;
  const uint64_t most = mask_words(limits) + words_of_adjustments(limits.vocab) + limits.vocab;
  return std::max(most, usual * round_outputs(limits));
}
uint64_t result_room(const SelectionLimits &limits) {
  if (limits.max_outputs == 0) return 0;
  const uint64_t top = 2 * uint64_t{std::max(limits.max_k, 1u)} + 1;
  return std::max(top + limits.vocab, (top + kUsualIds) * round_outputs(limits));
}

bool has_logits(const bonsai_output &output) { return output.kind != BONSAI_OUTPUT_HIDDEN; }

bool is_adjusted(const bonsai_output &output) {
  return output.n_adjustments > 0 || output.mask || (output.temperature != 0 && output.temperature != 1);
}

bool selects(const bonsai_output &output) {
  return output.kind == BONSAI_OUTPUT_TOP_K || output.kind == BONSAI_OUTPUT_ARGMAX ||
         (output.kind == BONSAI_OUTPUT_LOGITS && is_adjusted(output));
}

uint32_t k_of(const bonsai_output &output) {
  if (output.kind == BONSAI_OUTPUT_TOP_K) return output.k;
  return output.kind == BONSAI_OUTPUT_ARGMAX ? 1 : 0;
}

uint32_t ids_of(const bonsai_output &output) { return output.kind == BONSAI_OUTPUT_TOP_K ? output.n_ids : 0; }

uint64_t parameter_words(const bonsai_output &output, const SelectionLimits &limits) {
  if (!has_logits(output)) return 0;
  return (output.mask ? mask_words(limits) : 0) + words_of_adjustments(output.n_adjustments) + ids_of(output);
}

uint64_t result_words(const bonsai_output &output) {
  return 2 * uint64_t{k_of(output)} + (output.kind == BONSAI_OUTPUT_TOP_K) + ids_of(output);
}

void write(std::span<std::byte> to, uint64_t word, const void *from, uint64_t words) {
  std::memcpy(to.data() + word * kWord, from, words * kWord);
}

}  // namespace

SelectionSizes::SelectionSizes(const SelectionLimits &limits)
    : staged(bytes_of_words(kResultsAddressWords + (1 + kRowWords) * round_outputs(limits) + parameter_room(limits))),
      results(bytes_of_words(result_room(limits))),
      partials(limits.group_rows * chunks_of(limits) * sizeof(SelectPartial)),
      segments(limits.group_rows * chunks_of(limits) * kSelectSegments * sizeof(uint64_t)),
      selected(bytes_of_words(limits.max_outputs)) {}

SelectionRound::SelectionRound(const SelectionLimits &limits) : limits_(limits) {
  const uint64_t outputs = round_outputs(limits);
  order_.reserve(outputs);
  groups_.reserve(outputs);
  row_copies_.reserve(outputs);
  deliveries_.reserve(outputs);
}

uint32_t SelectionRound::stage(const Request &request, std::span<std::byte> staged, void *results) {
  groups_.clear();
  row_copies_.clear();
  deliveries_.clear();
  const uint32_t end = find_end(request);
  order_outputs(request, end);
  const auto n = static_cast<uint32_t>(order_.size());
  next_parameter_ = first_parameter();
  next_result_ = 0;
  const auto address = reinterpret_cast<uint64_t>(results);
  const std::array<uint32_t, kResultsAddressWords> halves = {static_cast<uint32_t>(address),
                                                             static_cast<uint32_t>(address >> 32)};
  write(staged, 0, halves.data(), halves.size());
  for (uint32_t row = 0; row < n; ++row) {
    const bonsai_output &output = *request.outputs[order_[row]];
    write(staged, kResultsAddressWords + row, &output.token, 1);
    const SelectRow staged_row = stage_row(output, order_[row], staged);
    write(staged, first_row() + row * kRowWords, &staged_row, kRowWords);
    add_to_group(output, row);
  }
  staged_bytes_ = next_parameter_ * kWord;
  result_bytes_ = next_result_ * kWord;
  return end;
}

// The first output of a request that does not fit any more.
uint32_t SelectionRound::find_end(const Request &request) const {
  uint64_t parameters = 0, results = 0;
  uint32_t i = request.first;
  for (; i < request.n && i - request.first < round_outputs(limits_); ++i) {
    parameters += parameter_words(*request.outputs[i], limits_);
    results += result_words(*request.outputs[i]);
    if (parameters > parameter_room(limits_) || results > result_room(limits_)) break;
  }
  return i;
}

// Outputs with logits first, so that they share groups.
void SelectionRound::order_outputs(const Request &request, uint32_t end) {
  order_.clear();
  for (const bool with_logits : {true, false}) {
    for (uint32_t i = request.first; i < end; ++i) {
      if (has_logits(*request.outputs[i]) == with_logits) order_.push_back(i);
    }
  }
}

uint32_t SelectionRound::stage_words(const void *words, uint64_t n, std::span<std::byte> staged) {
  const auto place = static_cast<uint32_t>(next_parameter_);
  if (n > 0) write(staged, place, words, n);
  next_parameter_ += n;
  return place;
}

SelectRow SelectionRound::stage_row(const bonsai_output &output, uint32_t index, std::span<std::byte> staged) {
  SelectRow row = {};
  row.kind = static_cast<SelectKind>(output.kind);
  row.output = index;
  row.temperature = 1;
  if (!has_logits(output)) return row;
  if (output.temperature != 0) row.temperature = output.temperature;
  row.n_adjustments = output.n_adjustments;
  row.adjustments = stage_words(output.adjust_ids, output.n_adjustments, staged);
  stage_words(output.adjust_add, output.n_adjustments, staged);
  stage_words(output.adjust_repeat, output.n_adjustments, staged);
  row.has_mask = output.mask != nullptr;
  row.mask = stage_words(output.mask, output.mask ? mask_words(limits_) : 0, staged);
  row.k = k_of(output);
  row.n_ids = ids_of(output);
  row.ids = stage_words(output.ids, row.n_ids, staged);
  row.results = static_cast<uint32_t>(next_result_);
  next_result_ += result_words(output);
  if (row.k > 0) {
    deliveries_.push_back({.top_ids = output.top_ids,
                           .top_logits = output.top_logits,
                           .log_sum_exp = output.log_sum_exp,
                           .id_logits = output.id_logits,
                           .k = row.k,
                           .n_ids = row.n_ids,
                           .is_top = output.kind == BONSAI_OUTPUT_TOP_K,
                           .results = row.results});
  }
  return row;
}

void SelectionRound::add_to_group(const bonsai_output &output, uint32_t row) {
  if (groups_.empty() || groups_.back().n == limits_.group_rows || groups_.back().has_logits != has_logits(output)) {
    groups_.push_back({.first = row,
                       .n = 0,
                       .has_logits = has_logits(output),
                       .selects = false,
                       .first_copy = static_cast<uint32_t>(row_copies_.size()),
                       .n_copies = 0});
  }
  SelectionGroup &group = groups_.back();
  const uint32_t place = group.n++;
  group.selects = group.selects || selects(output);
  if (output.kind == BONSAI_OUTPUT_LOGITS) row_copies_.push_back({place, output.logits, limits_.vocab});
  if (output.kind == BONSAI_OUTPUT_HIDDEN) row_copies_.push_back({place, output.hidden, limits_.hidden});
  group.n_copies = static_cast<uint32_t>(row_copies_.size()) - group.first_copy;
}

std::span<const RowCopy> SelectionRound::row_copies(const SelectionGroup &group) const {
  return std::span(row_copies_).subspan(group.first_copy, group.n_copies);
}

void SelectionRound::deliver(std::span<const std::byte> results) const {
  for (const Delivery &delivery : deliveries_) {
    const std::byte *from = results.data() + delivery.results * kWord;
    const auto take = [&from](void *to, uint64_t words) {
      if (to && words > 0) std::memcpy(to, from, words * kWord);
      from += words * kWord;
    };
    take(delivery.top_ids, delivery.k);
    take(delivery.top_logits, delivery.k);
    if (!delivery.is_top) continue;
    take(delivery.log_sum_exp, 1);
    take(delivery.id_logits, delivery.n_ids);
  }
}

const uint32_t *SelectionRound::tokens(const SelectionGroup &group, const SelectionBuffers &buffers) const {
  return static_cast<const uint32_t *>(buffers.staged) + kResultsAddressWords + group.first;
}

SelectArguments SelectionRound::arguments(const SelectionGroup &group, const SelectionBuffers &buffers) const {
  const auto *staged = static_cast<const uint32_t *>(buffers.staged);
  return {.staged = staged,
          .rows = reinterpret_cast<const SelectRow *>(staged + first_row()) + group.first,
          .logits = buffers.logits,
          .partials = static_cast<SelectPartial *>(buffers.partials),
          .segments = static_cast<uint64_t *>(buffers.segments),
          .selected = buffers.selected,
          .stride = buffers.logits_stride,
          .vocab = limits_.vocab,
          .n_chunks = static_cast<uint32_t>(chunks_of(limits_))};
}

}  // namespace bonsai::cuda
