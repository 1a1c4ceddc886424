// What a fuzz target provides. The same two functions serve the deterministic driver of the default tests (driver.cpp)
// and libFuzzer (-DBONSAI_LIBFUZZER=ON with clang).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Runs the code under test on one input; returns 0. A promise that does not hold is an abort().
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Good and nearly good inputs, made in code, for the driver to mutate.
std::vector<std::vector<uint8_t>> fuzz_seeds();
