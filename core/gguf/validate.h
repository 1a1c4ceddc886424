// Looks at every weight of a file that has parsed: structure is the reader's business, contents are checked here.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/gguf/file.h"

namespace bonsai::gguf {

// What was found in one tensor's data.
struct TensorReport {
  std::string_view name;  // a view into the file
  quant::Format format;
  uint64_t weights;           // how many there are
  uint64_t blocks;            // likewise
  uint64_t nonfinite_blocks;  // blocks with an infinity or a NaN in a scale or a weight
  uint64_t code3;             // 2-bit codes of value 3 in a ternary format: legal, but such a tensor is not ternary

  bool clean() const { return nonfinite_blocks == 0 && code3 == 0; }
};

struct ValidationReport {
  std::vector<TensorReport> tensors;  // in file order, clean ones included
  uint64_t weights = 0;               // sums over the tensors
  uint64_t nonfinite_blocks = 0;
  uint64_t code3 = 0;

  // No infinity and no NaN: nothing that would spoil every result.
  bool usable() const { return nonfinite_blocks == 0; }
};

// Reads all tensor data once; pages of a mapped file are released behind the scan.
ValidationReport validate(const File &file);

}  // namespace bonsai::gguf
