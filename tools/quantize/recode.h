// Turns one tensor's blocks into another format's, piece by piece, and measures what is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/gguf/file.h"
#include "core/quant/format.h"

namespace bonsai::quantize {

// Over the weights seen so far.
struct ErrorSums {
  double squared_errors = 0;
  double squared_weights = 0;
  float max_absolute = 0;
  bool changed = false;  // whether any weight has another value than before

  void add(const ErrorSums &other);
  double relative_rms() const;
};

class Recoder {
 public:
  // `exact`: a weight that would change its value is an error.
  Recoder(const gguf::Tensor &source, const quant::FormatTraits &format, bool exact);

  // The blocks of `count` weights from weight `begin` on, both multiples of every format's block or up to the tensor's
  // end; valid until the next call. Runs on all threads; the result, sums and errors included, does not depend on them.
  Result<std::span<const std::byte>> recode(uint64_t begin, uint64_t count);

  const ErrorSums &sums() const { return sums_; }

 private:
  struct SpanResult {
    ErrorSums sums;
    std::string failure;  // empty: none
  };

  // A few thousand weights: what one task does.
  SpanResult recode_span(uint64_t begin, size_t count, std::byte *out) const;
  bool transcode_exactly(const std::byte *in, std::byte *out, size_t count) const;
  std::string place(uint64_t weight) const;
  std::string explain_overflow(uint64_t begin, std::span<const float> before, std::span<const float> after) const;
  std::string explain_change(uint64_t begin, std::span<const float> before, std::span<const float> after) const;

  const gguf::Tensor &source_;
  const quant::FormatTraits &from_;
  const quant::FormatTraits &to_;
  bool exact_;
  ErrorSums sums_;
  std::vector<std::byte> blocks_;
  std::vector<SpanResult> results_;
};

}  // namespace bonsai::quantize
