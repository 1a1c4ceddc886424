// Random weights of any format, at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/quant/format.h"

namespace bonsai::synth {

// SplitMix64 (Steele, Lea, Flood, 2014): any seed is good.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // Uniform in [-1, 1).
  float symmetric();

 private:
  uint64_t state_;
};

// A hundred thousand encoded weights drawn uniformly with the given standard deviation. Rows are filled with
// random picks from them, so that every format, however intricate its encoder, fills as fast as it copies.
class WeightPool {
 public:
  WeightPool(const quant::FormatTraits &format, float standard_deviation, uint64_t seed);

  // Fills whole blocks; the bytes depend on the seed and the pool alone.
  void fill(std::span<std::byte> blocks, uint64_t seed) const;

 private:
  size_t pick_bytes_;  // what one random pick copies: one block, or a run of small ones
  size_t picks_;
  std::vector<std::byte> pool_;
};

}  // namespace bonsai::synth
