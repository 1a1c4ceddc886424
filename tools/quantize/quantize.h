// Writes a GGUF file again with its matrices in another format.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/quant/format.h"

namespace bonsai::quantize {

// Another format for the matrices whose names match.
struct KeepRule {
  std::string pattern;  // as for file names: * and ? and [...]
  const quant::FormatTraits *format;
};

struct Request {
  std::string input;
  std::string output;
  const quant::FormatTraits *format;  // of every matrix; vectors (norms) become F32
  std::vector<KeepRule> keep;         // the last rule that matches a name wins
  bool requantize = false;            // whether a tensor that is quantised already may lose more
};

// What one tensor lost, measured over its values before and after.
struct TensorError {
  std::string name;  // in a form that a terminal can be shown
  const quant::FormatTraits *from;
  const quant::FormatTraits *to;
  double relative_rms;  // root mean square of the error over that of the weights; 0 where both are 0
  float max_absolute;
};

struct Report {
  // What a person should know: tensors that got another format because their rows do not divide into blocks or of which
  // only zeros are left, quantised tensors that lost more, patterns that match nothing, the input's own warnings. One
  // line each.
  std::vector<std::string> notices;
  std::vector<TensorError> tensors;  // in file order
};

// Called between pieces of work; returns false to stop, and nothing is left behind then.
using Progress = std::function<bool(uint64_t done_weights, uint64_t total_weights)>;

// Streams: memory stays at a few megabytes for any model. The bytes do not depend on the number of threads (those of
// the oneTBB arena that it is called in). The output appears under its name only when it is complete.
//
// Floats (F32, F16, BF16) are rounded to what the format holds. A quantised tensor is taken if every weight keeps its
// value, or if the request allows more loss. Errors are one line: a file that cannot be read or written, a tensor that
// would lose more, an infinity, a NaN, or a weight beyond the format's range (which tensor, row and column).
Result<Report> quantize(const Request &request, const Progress &progress);

}  // namespace bonsai::quantize
