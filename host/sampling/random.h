// Random numbers that are the same on every machine.
#pragma once

#include <cstdint>
#include <random>

namespace bonsai::host {

// A counter-based generator: the n-th number depends on seed and n alone. It is SplitMix64 (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014) with the seed mixed once first, so that neighbouring
// seeds give unrelated streams:
//   mix(z): z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;  z ^ (z >> 31)
//   bits(n) = mix(mix(seed) + (n + 1) * 0x9E3779B97F4A7C15)
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : key_(mix(seed)) {}

  uint64_t bits(uint64_t n) const { return mix(key_ + (n + 1) * 0x9E3779B97F4A7C15u); }

  // In [0, 1): the top 53 bits times 2^-53, exact in a double.
  double uniform(uint64_t n) const { return static_cast<double>(bits(n) >> 11) * 0x1p-53; }

 private:
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t key_;
};

// A seed for those who gave none: 32 bits, short enough to type again.
inline uint64_t random_seed() { return std::random_device{}(); }

}  // namespace bonsai::host
