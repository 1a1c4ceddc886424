// Writes tensors into a file in another format, piece by piece and on all threads, and measures what is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/gguf/writer.h"
#include "core/quant/format.h"

namespace bonsai::tools {

// Over the weights of a tensor.
struct ErrorSums {
  double squared_errors = 0;
  double squared_weights = 0;
  float max_absolute = 0;
  bool changed = false;   // whether any weight has another value than before
  bool any_left = false;  // whether any weight is not zero now

  void add(const ErrorSums &other);
  double relative_rms() const;
  // Weights that were not all zeros, and are now: the new format holds none so small.
  bool have_vanished() const { return squared_weights > 0 && !any_left; }
};

// Factors of a tensor's weights, one for each block of so many rows and columns, at the ends of fewer.
struct ScaleGrid {
  uint64_t block_rows, block_columns;
  uint64_t columns;           // blocks side by side
  std::vector<float> scales;  // (blocks of rows, columns)
};

// A tensor as it is, and the format that it is to have. Rows divide into the blocks of both.
struct Recoding {
  std::string name;  // what errors begin with
  uint64_t columns;
  const quant::FormatTraits *from;
  std::span<const std::byte> blocks;
  const quant::FormatTraits *to;
  bool exact = false;  // a weight that would change is an error, which names bonsai-quantize's --requantize
  const ScaleGrid *scales = nullptr;  // what weights are multiplied by once they are floats; nullptr: nothing

  uint64_t weights() const { return blocks.size() / from->block_bytes * from->block_weights; }
};

class Recoder {
 public:
  // Called between pieces of work; returns false to stop.
  using Progress = std::function<bool(uint64_t done_weights, uint64_t total_weights)>;
  // Called with blocks that are not needed again.
  using Release = std::function<void(std::span<const std::byte>)>;

  // `writer` is where tensors' data come next. Memory stays at a few megabytes.
  Recoder(gguf::Writer &writer, const Progress &progress, uint64_t total_weights)
      : writer_(writer), progress_(progress), total_(total_weights) {}

  // Writes the next tensor. What is written and returned, errors included, does not depend on the number of threads
  // (those of the oneTBB arena that this is called in). Errors are one line: `progress` said stop, the file cannot be
  // written, an infinity or a NaN, a weight beyond the format's range or one that would change (row and column).
  Result<ErrorSums> write(const Recoding &tensor, const Release &release);

 private:
  // A few thousand weights: what one task does.
  struct Span {
    ErrorSums sums;
    std::string failure;  // empty: none
  };

  Result<ErrorSums> recode(const Recoding &tensor, uint64_t begin, uint64_t count);

  gguf::Writer &writer_;
  const Progress &progress_;
  uint64_t total_, done_ = 0;
  std::vector<std::byte> blocks_;  // of a piece, in the new format
  std::vector<Span> spans_;        // likewise
};

}  // namespace bonsai::tools
