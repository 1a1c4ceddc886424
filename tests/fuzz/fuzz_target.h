// What a fuzz target provides. The same two functions serve the deterministic driver of the default tests (driver.cpp)
// and libFuzzer (-DBONSAI_LIBFUZZER=ON with clang).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

// Runs the code under test on one input; returns 0. A promise that does not hold is an abort().
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What a target promises of every input.
inline void require(bool promise) {
  if (!promise) std::abort();
}

// Whether there is an error, which must be one line.
template <class T>
bool refused_in_one_line(const bonsai::Result<T> &result) {
  if (result) return false;
  const std::string &message = result.error().message;
  require(!message.empty() && message.find('\n') == std::string::npos);
  return true;
}

// An input whose first byte says what the others are: a Kind of the target's.
template <class Kind>
std::vector<uint8_t> make_seed(Kind kind, std::string_view text) {
  std::vector<uint8_t> seed{static_cast<uint8_t>(kind)};
  seed.insert(seed.end(), text.begin(), text.end());
  return seed;
}

// Good and nearly good inputs, made in code, for the driver to mutate.
std::vector<std::vector<uint8_t>> fuzz_seeds();
