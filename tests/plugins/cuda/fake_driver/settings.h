// The machine that the fake driver describes.
#pragma once

#include <cstdint>
#include <string>

#include "tests/plugins/cuda/emulator/emulator.h"

namespace bonsai::fake {

struct Settings {
  int devices;
  int capability;  // 10 major + minor
  std::string name;
  uint64_t memory_bytes;
  int multiprocessors;
  int driver_version;
  emulation::Order order;
  bool is_eager;
  bool is_strict;
};

// As fake_cuda.h says, from the environment. A value that is no number counts as 0.
Settings read_settings();

// 0 forward, 1 backward, from 2 on random.
emulation::Order order_of(uint64_t number);

// What CUDA grants a block and a multiprocessor of that compute capability.
size_t shared_bytes_of_block(int capability);
size_t shared_bytes_of_multiprocessor(int capability);

}  // namespace bonsai::fake
