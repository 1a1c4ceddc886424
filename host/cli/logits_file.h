// Logits that another program computed.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace bonsai::cli {

// A file of float32 as this machine stores them: a row of the vocabulary for each token of a text.
class LogitsFile {
 public:
  // Throws Failure if it cannot be read or has another size.
  LogitsFile(const std::string &path, uint64_t tokens, uint64_t vocabulary);

  // What follows the `token`-th token; valid until the next call. Throws Failure where it cannot be read or holds a NaN
  // or +infinity.
  std::span<const float> row(uint64_t token);

 private:
  std::string path_;
  std::ifstream file_;
  std::vector<float> row_;
};

}  // namespace bonsai::cli
