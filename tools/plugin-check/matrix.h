// Matrices and vectors for gemv, ordinary and extreme, with the products that they have in float64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/quant/format.h"
#include "tools/plugin-check/random.h"

namespace bonsai::check {

enum class Pattern {
  kRandom,       // normal weights of variance 1 / columns
  kZeros,        // what the encoder makes of zeros
  kOneColumn,    // zeros but for one column
  kLargeScale,   // random codes under a scale of 1,024 in every block
  kSmallScale,   // random codes under a scale that is a subnormal f16, 2^-20
  kRandomCodes,  // random bytes in all codes and sub-block scales: codes that no encoder writes, ternary code 3
  kLowestCodes,  // all bits 0
  kHighestCodes  // all bits 1
};
inline constexpr std::array kPatterns = {Pattern::kRandom,      Pattern::kZeros,       Pattern::kOneColumn,
                                         Pattern::kLargeScale,  Pattern::kSmallScale,  Pattern::kRandomCodes,
                                         Pattern::kLowestCodes, Pattern::kHighestCodes};
const char *name_of(Pattern pattern);

// (rows, columns) weights in a format's blocks.
struct Matrix {
  quant::Format format;
  uint64_t rows, columns;
  std::vector<std::byte> bytes;  // one byte, then the blocks: the ABI promises no alignment, so there is none
  std::vector<float> weights;    // decoded

  std::span<const std::byte> blocks() const { return std::span(bytes).subspan(1); }
};
Matrix make_matrix(quant::Format format, uint64_t rows, uint64_t columns, Pattern pattern, Random &random);

enum class VectorPattern {
  kRandom,
  kZeros,
  kOneHot,
  kSigns,  // 1 and -1
  kHuge,   // random times 2^40: beyond what an f16 holds
  kTiny    // random times 2^-40
};
inline constexpr std::array kVectorPatterns = {VectorPattern::kRandom, VectorPattern::kZeros, VectorPattern::kOneHot,
                                               VectorPattern::kSigns,  VectorPattern::kHuge,  VectorPattern::kTiny};
const char *name_of(VectorPattern pattern);
// (n, columns)
std::vector<float> make_vectors(uint32_t n, uint64_t columns, VectorPattern pattern, Random &random);

// How far y is from W x, summed up over vectors. Errors are relative to the length of W x, or to the length that it
// would have if the signs of its terms were random, whichever is more: a sum that cancels out is no backend's fault.
class ProductError {
 public:
  // Takes one vector's product over the rows [first_row, first_row + y.size()); returns its own relative error.
  double add(const Matrix &matrix, uint64_t first_row, std::span<const float> x, std::span<const float> y);
  // Of all products together.
  double total() const;

 private:
  double difference_ = 0, norm_ = 0;
};

}  // namespace bonsai::check
