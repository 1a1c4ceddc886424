#include "tools/quantize/recode.h"

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/base/utf8.h"
#include "core/quant/transcode.h"

namespace bonsai::quantize {
namespace {

// Rows are whole blocks in both formats, so a tensor can be cut anywhere between blocks, however long its rows are.
// Every format's block divides this.
constexpr size_t kSpanWeights = 4096;

// Sums in lanes, which the compiler can keep in vector registers; the order is fixed all the same.
ErrorSums compare(std::span<const float> before, std::span<const float> after) {
  constexpr size_t kLanes = 8;
  double squared_errors[kLanes] = {}, squared_weights[kLanes] = {};
  float largest[kLanes] = {};
  const auto add = [&](size_t i, size_t lane) {
    const float error = std::fabs(after[i] - before[i]);
    squared_errors[lane] += static_cast<double>(error) * error;
    squared_weights[lane] += static_cast<double>(before[i]) * before[i];
    largest[lane] = std::max(largest[lane], error);
  };
  const size_t whole = before.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (size_t i = whole; i < before.size(); ++i) add(i, i - whole);
  ErrorSums sums;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sums.add({squared_errors[lane], squared_weights[lane], largest[lane], largest[lane] > 0});
  }
  return sums;
}

}  // namespace

void ErrorSums::add(const ErrorSums &other) {
  squared_errors += other.squared_errors;
  squared_weights += other.squared_weights;
  max_absolute = std::max(max_absolute, other.max_absolute);
  changed = changed || other.changed;
}

double ErrorSums::relative_rms() const {
  return squared_errors == 0 ? 0 : std::sqrt(squared_errors) / std::sqrt(squared_weights);
}

Recoder::Recoder(const gguf::Tensor &source, const quant::FormatTraits &format, bool exact)
    : source_(source), from_(quant::traits(source.format)), to_(format), exact_(exact) {
  assert(kSpanWeights % from_.block_weights == 0 && kSpanWeights % to_.block_weights == 0);
}

Result<std::span<const std::byte>> Recoder::recode(uint64_t begin, uint64_t count) {
  const size_t n_spans = (count + kSpanWeights - 1) / kSpanWeights;
  blocks_.resize(quant::row_bytes(to_, count));
  results_.resize(n_spans);
  tbb::parallel_for(size_t{0}, n_spans, [&](size_t i) {
    const uint64_t at = i * kSpanWeights;
    const size_t n = std::min<uint64_t>(kSpanWeights, count - at);
    results_[i] = recode_span(begin + at, n, blocks_.data() + quant::row_bytes(to_, at));
  });
  for (const SpanResult &result : results_) {
    if (!result.failure.empty()) return fail("{}", result.failure);
    sums_.add(result.sums);
  }
  return std::span<const std::byte>(blocks_);
}

Recoder::SpanResult Recoder::recode_span(uint64_t begin, size_t count, std::byte *out) const {
  SpanResult result;
  float before[kSpanWeights], after[kSpanWeights];
  const std::byte *in = source_.data.data() + quant::row_bytes(from_, begin);
  from_.decode(in, before, count);
  const float *bad = std::find_if(before, before + count, [](float weight) { return !std::isfinite(weight); });
  if (bad != before + count) {  // an encoder would make an ordinary weight of it
    result.failure = fmt::format("{}: expected a finite number, found {}", place(begin + (bad - before)), *bad);
    return result;
  }
  if (!transcode_exactly(in, out, count)) to_.encode(before, out, count);
  to_.decode(out, after, count);
  result.sums = compare({before, count}, {after, count});
  if (!std::isfinite(result.sums.squared_errors)) {
    result.failure = explain_overflow(begin, {before, count}, {after, count});
  } else if (exact_ && result.sums.changed) {
    result.failure = explain_change(begin, {before, count}, {after, count});
  }
  return result;
}

// False where it cannot be done, or not block by block; encoding may still keep every value, and is checked for it.
bool Recoder::transcode_exactly(const std::byte *in, std::byte *out, size_t count) const {
  return quant::can_transcode(from_.format, to_.format) && quant::transcode(from_.format, to_.format, in, out, count);
}

std::string Recoder::place(uint64_t weight) const {
  return fmt::format("tensor {} ({}): row {}, column {}", quoted(source_.name), from_.name, weight / source_.columns(),
                     weight % source_.columns());
}

// A scale beyond its range spoils the whole block; the weight to blame is the largest.
std::string Recoder::explain_overflow(uint64_t begin, std::span<const float> before,
                                      std::span<const float> after) const {
  const auto bad = std::find_if(after.begin(), after.end(), [](float weight) { return !std::isfinite(weight); });
  const size_t at = static_cast<size_t>(bad - after.begin());
  const auto block = before.subspan(at / to_.block_weights * to_.block_weights, to_.block_weights);
  const auto largest =
      std::max_element(block.begin(), block.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const uint64_t weight = begin + static_cast<uint64_t>(&*largest - before.data());
  return fmt::format("{}: {} is beyond what {} holds", place(weight), *largest, to_.name);
}

std::string Recoder::explain_change(uint64_t begin, std::span<const float> before, std::span<const float> after) const {
  const auto [weight, changed] = std::mismatch(before.begin(), before.end(), after.begin());
  return fmt::format("{}: {} would become {} in {}; --requantize allows that loss",
                     place(begin + static_cast<uint64_t>(weight - before.begin())), *weight, *changed, to_.name);
}

}  // namespace bonsai::quantize
