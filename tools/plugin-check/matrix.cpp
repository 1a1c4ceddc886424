#include "tools/plugin-check/matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace bonsai::check {
namespace {

using quant::Format;

// Where a block's own scales lie, in bytes; -1: there is none. Everything else in a block is codes and sub-block
// scales.
struct Scales {
  Format format;
  int scale, minimum;
};
constexpr Scales kScales[] = {
    {Format::kQ8_0, 0, -1},     {Format::kQ4_0, 0, -1},     {Format::kQ1_0_G128, 0, -1}, {Format::kTQ2_0_G128, 0, -1},
    {Format::kQ2_0_G64, 0, -1}, {Format::kTQ2_0, 64, -1},   {Format::kTQ1_0, 52, -1},    {Format::kTQ1_0_G128, 26, -1},
    {Format::kF8_E4M3, 32, -1}, {Format::kF8_E5M2, 32, -1}, {Format::kQ4_1, 0, 2},       {Format::kQ5_0, 0, -1},
    {Format::kQ5_1, 0, 2},      {Format::kQ2_K, 80, 82},    {Format::kQ3_K, 108, -1},    {Format::kQ4_K, 0, 2},
    {Format::kQ5_K, 0, 2},      {Format::kQ6_K, 208, -1},   {Format::kQ8_K, 0, -1},      {Format::kIQ4_NL, 0, -1},
    {Format::kIQ4_XS, 0, -1},
};

void put_scales(Format format, float scale, std::byte *block) {
  for (const Scales &scales : kScales) {
    if (scales.format != format) continue;
    if (format == Format::kQ8_K) {  // the only f32 scale
      std::memcpy(block, &scale, sizeof scale);
      return;
    }
    const uint16_t half = quant::float_to_half(scale), minimum = quant::float_to_half(scale / 2);
    std::memcpy(block + scales.scale, &half, sizeof half);
    if (scales.minimum >= 0) std::memcpy(block + scales.minimum, &minimum, sizeof minimum);
  }
}

bool is_finite(const quant::FormatTraits &traits, const std::byte *block) {
  return traits.count_nonfinite(block, traits.block_weights) == 0;
}

// One block of chosen bytes under a scale; FP8 and the plain floats have codes that are no numbers, and draw again.
void make_codes(const quant::FormatTraits &traits, Pattern pattern, float scale, Random &random, std::byte *block) {
  const std::byte fill = pattern == Pattern::kHighestCodes ? std::byte{0xFF} : std::byte{0};
  std::fill_n(block, traits.block_bytes, fill);
  const bool drawn = pattern != Pattern::kLowestCodes && pattern != Pattern::kHighestCodes;
  put_scales(traits.format, scale, block);
  while (drawn || !is_finite(traits, block)) {
    for (uint32_t i = 0; i < traits.block_bytes; ++i) block[i] = static_cast<std::byte>(random.next());
    put_scales(traits.format, scale, block);
    if (is_finite(traits, block)) break;
  }
}

bool encodes_numbers(Pattern pattern, Format format) {
  const bool plain = format == Format::kF32 || format == Format::kF16 || format == Format::kBF16;
  return plain || pattern == Pattern::kRandom || pattern == Pattern::kZeros || pattern == Pattern::kOneColumn;
}

std::vector<float> make_numbers(uint64_t rows, uint64_t columns, Pattern pattern, Random &random) {
  std::vector<float> numbers(rows * columns);
  if (pattern == Pattern::kZeros) return numbers;
  double spread = 1 / std::sqrt(static_cast<double>(columns));
  if (pattern == Pattern::kLargeScale) spread = 1024;
  if (pattern == Pattern::kSmallScale) spread = 0x1p-20;
  const uint64_t column = random.below(static_cast<uint32_t>(columns));
  for (uint64_t i = 0; i < numbers.size(); ++i) {
    const double number = spread * random.normal();
    if (pattern != Pattern::kOneColumn || i % columns == column) numbers[i] = static_cast<float>(number);
  }
  return numbers;
}

}  // namespace

const char *name_of(Pattern pattern) {
  constexpr const char *kNames[] = {"random",       "zeros",        "one column",   "large scales",
                                    "small scales", "random codes", "lowest codes", "highest codes"};
  return kNames[static_cast<size_t>(pattern)];
}

const char *name_of(VectorPattern pattern) {
  constexpr const char *kNames[] = {"random", "zero", "one-hot", "sign", "huge", "tiny"};
  return kNames[static_cast<size_t>(pattern)];
}

Matrix make_matrix(Format format, uint64_t rows, uint64_t columns, Pattern pattern, Random &random) {
  const quant::FormatTraits &traits = quant::traits(format);
  Matrix matrix = {.format = format, .rows = rows, .columns = columns, .bytes = {}, .weights = {}};
  matrix.bytes.resize(1 + rows * quant::row_bytes(traits, columns));
  std::byte *const blocks = matrix.bytes.data() + 1;
  if (encodes_numbers(pattern, format)) {
    const std::vector<float> numbers = make_numbers(rows, columns, pattern, random);
    traits.encode(numbers.data(), blocks, numbers.size());
  } else {
    const float scale = pattern == Pattern::kLargeScale ? 1024.0f : pattern == Pattern::kSmallScale ? 0x1p-20f : 0.01f;
    for (size_t at = 0; at < matrix.blocks().size(); at += traits.block_bytes) {
      make_codes(traits, pattern, scale, random, blocks + at);
    }
  }
  matrix.weights.resize(rows * columns);
  traits.decode(blocks, matrix.weights.data(), matrix.weights.size());
  return matrix;
}

std::vector<float> make_vectors(uint32_t n, uint64_t columns, VectorPattern pattern, Random &random) {
  std::vector<float> x(n * columns);
  if (pattern == VectorPattern::kZeros) return x;
  if (pattern == VectorPattern::kOneHot) {
    for (uint32_t i = 0; i < n; ++i) x[i * columns + random.below(static_cast<uint32_t>(columns))] = i % 2 ? -1.5f : 3;
    return x;
  }
  const double scale = pattern == VectorPattern::kHuge ? 0x1p40 : pattern == VectorPattern::kTiny ? 0x1p-40 : 1;
  for (float &value : x) {
    const double drawn = random.normal();
    value = pattern == VectorPattern::kSigns ? (drawn < 0 ? -1.0f : 1.0f) : static_cast<float>(scale * drawn);
  }
  return x;
}

double ProductError::add(const Matrix &matrix, uint64_t first_row, std::span<const float> x, std::span<const float> y) {
  double difference = 0, norm = 0, spread = 0;
  for (size_t row = 0; row < y.size(); ++row) {
    const float *w = &matrix.weights[(first_row + row) * matrix.columns];
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double term = static_cast<double>(w[i]) * x[i];
      sum += term;
      spread += term * term;
    }
    difference += (y[row] - sum) * (y[row] - sum);
    norm += sum * sum;
  }
  norm = std::max(norm, spread);
  difference_ += difference;
  norm_ += norm;
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

double ProductError::total() const { return norm_ > 0 ? std::sqrt(difference_ / norm_) : std::sqrt(difference_); }

}  // namespace bonsai::check
