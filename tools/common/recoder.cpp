#include "tools/common/recoder.h"

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/quant/transcode.h"

namespace bonsai::tools {
namespace {

constexpr uint64_t kPieceWeights = 1 << 20;  // recoded at a time, and then written: at most 4 MiB

// Rows are whole blocks in both formats, so a tensor can be cut anywhere between blocks, however long its rows are.
// Every format's block divides this.
constexpr size_t kSpanWeights = 4096;

// Sums in lanes, which the compiler can keep in vector registers; the order is fixed all the same.
ErrorSums compare(std::span<const float> before, std::span<const float> after) {
  constexpr size_t kLanes = 8;
  double squared_errors[kLanes] = {}, squared_weights[kLanes] = {};
  float largest[kLanes] = {}, largest_after[kLanes] = {};
  const auto add = [&](size_t i, size_t lane) {
    const float error = std::fabs(after[i] - before[i]);
    squared_errors[lane] += static_cast<double>(error) * error;
    squared_weights[lane] += static_cast<double>(before[i]) * before[i];
    largest[lane] = std::max(largest[lane], error);
    largest_after[lane] = std::max(largest_after[lane], std::fabs(after[i]));
  };
  const size_t whole = before.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (size_t i = whole; i < before.size(); ++i) add(i, i - whole);
  ErrorSums sums;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sums.add({squared_errors[lane], squared_weights[lane], largest[lane], largest[lane] > 0, largest_after[lane] > 0});
  }
  return sums;
}

std::string place(const Recoding &tensor, uint64_t weight) {
  return fmt::format("{}: row {}, column {}", tensor.name, weight / tensor.columns, weight % tensor.columns);
}

// Some of a tensor's weights, before and after.
struct Weights {
  uint64_t begin;  // the first one's number in the tensor
  std::span<const float> before, after;
};

// A scale beyond its range spoils the whole block; the weight to blame is the largest.
std::string explain_overflow(const Recoding &tensor, const Weights &weights) {
  const auto &[begin, before, after] = weights;
  const auto bad = std::find_if(after.begin(), after.end(), [](float weight) { return !std::isfinite(weight); });
  const size_t at = static_cast<size_t>(bad - after.begin()), block_weights = tensor.to->block_weights;
  const auto block = before.subspan(at / block_weights * block_weights, block_weights);
  const auto largest =
      std::max_element(block.begin(), block.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const uint64_t weight = begin + static_cast<uint64_t>(&*largest - before.data());
  return fmt::format("{}: {} is beyond what {} holds", place(tensor, weight), *largest, tensor.to->name);
}

std::string explain_change(const Recoding &tensor, const Weights &weights) {
  const auto &[begin, before, after] = weights;
  const auto [weight, changed] = std::mismatch(before.begin(), before.end(), after.begin());
  return fmt::format("{}: {} would become {} in {}; --requantize allows that loss",
                     place(tensor, begin + static_cast<uint64_t>(weight - before.begin())), *weight, *changed,
                     tensor.to->name);
}

// False where it cannot be done, or not block by block; encoding may still keep every value, and is checked for it.
bool transcode_exactly(const Recoding &tensor, const std::byte *in, std::byte *out, size_t count) {
  if (tensor.scales != nullptr) return false;
  const quant::Format from = tensor.from->format, to = tensor.to->format;
  return quant::can_transcode(from, to) && quant::transcode(from, to, in, out, count);
}

// Multiplies weights, of which `begin` is the first one's number in the tensor.
void scale(const ScaleGrid &grid, uint64_t columns, uint64_t begin, std::span<float> weights) {
  for (size_t done = 0; done < weights.size();) {
    const uint64_t row = (begin + done) / columns, column = (begin + done) % columns;
    const uint64_t block = column / grid.block_columns;
    const uint64_t end = std::min(columns, (block + 1) * grid.block_columns);
    const size_t run = std::min<uint64_t>(end - column, weights.size() - done);
    const float factor = grid.scales[row / grid.block_rows * grid.columns + block];
    for (float &weight : weights.subspan(done, run)) weight *= factor;
    done += run;
  }
}

// Writes the new blocks of `count` weights, at most kSpanWeights, to `out`; what is wrong with them, or nothing.
std::string recode_span(const Recoding &tensor, uint64_t begin, size_t count, std::byte *out, ErrorSums &sums) {
  float before[kSpanWeights], after[kSpanWeights];
  const std::byte *in = tensor.blocks.data() + quant::row_bytes(*tensor.from, begin);
  tensor.from->decode(in, before, count);
  if (tensor.scales != nullptr) scale(*tensor.scales, tensor.columns, begin, {before, count});
  const float *bad = std::find_if(before, before + count, [](float weight) { return !std::isfinite(weight); });
  if (bad != before + count) {  // an encoder would make an ordinary weight of it
    const uint64_t weight = begin + static_cast<uint64_t>(bad - before);
    return fmt::format("{}: expected a finite number, found {}", place(tensor, weight), *bad);
  }
  if (!transcode_exactly(tensor, in, out, count)) tensor.to->encode(before, out, count);
  tensor.to->decode(out, after, count);
  sums = compare({before, count}, {after, count});
  const Weights weights = {begin, {before, count}, {after, count}};
  if (!std::isfinite(sums.squared_errors)) return explain_overflow(tensor, weights);
  return tensor.exact && sums.changed ? explain_change(tensor, weights) : "";
}

}  // namespace

void ErrorSums::add(const ErrorSums &other) {
  squared_errors += other.squared_errors;
  squared_weights += other.squared_weights;
  max_absolute = std::max(max_absolute, other.max_absolute);
  changed = changed || other.changed;
  any_left = any_left || other.any_left;
}

double ErrorSums::relative_rms() const {
  return squared_errors == 0 ? 0 : std::sqrt(squared_errors) / std::sqrt(squared_weights);
}

Result<ErrorSums> Recoder::write(const Recoding &tensor, const Release &release) {
  assert(kSpanWeights % tensor.from->block_weights == 0 && kSpanWeights % tensor.to->block_weights == 0);
  ErrorSums sums;
  const uint64_t weights = tensor.weights();
  for (uint64_t begin = 0; begin < weights; begin += kPieceWeights) {
    if (!progress_(done_, total_)) return fail("interrupted, nothing was written");
    const uint64_t count = std::min(kPieceWeights, weights - begin);
    const auto piece = recode(tensor, begin, count);
    if (!piece) return piece;
    sums.add(*piece);
    if (const auto written = writer_.write(blocks_); !written) return tl::unexpected(written.error());
    release(tensor.blocks.subspan(quant::row_bytes(*tensor.from, begin), quant::row_bytes(*tensor.from, count)));
    done_ += count;
  }
  return sums;
}

// Leaves the piece's new blocks in blocks_. Sums are added in the order of the weights, and the first failure counts.
Result<ErrorSums> Recoder::recode(const Recoding &tensor, uint64_t begin, uint64_t count) {
  blocks_.resize(quant::row_bytes(*tensor.to, count));
  spans_.assign((count + kSpanWeights - 1) / kSpanWeights, {});
  tbb::parallel_for(size_t{0}, spans_.size(), [&](size_t i) {
    const uint64_t at = i * kSpanWeights;
    const size_t n = std::min<uint64_t>(kSpanWeights, count - at);
    std::byte *out = blocks_.data() + quant::row_bytes(*tensor.to, at);
    spans_[i].failure = recode_span(tensor, begin + at, n, out, spans_[i].sums);
  });
  ErrorSums sums;
  for (const Span &span : spans_) {
    if (!span.failure.empty()) return fail("{}", span.failure);
    sums.add(span.sums);
  }
  return sums;
}

}  // namespace bonsai::tools
