// Numbers that are random to a backend and the same in every run, on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace bonsai::check {

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(next() % n); }

  template <class T>
  void shuffle(std::vector<T> &values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(static_cast<uint32_t>(i))]);
  }

 private:
  uint64_t state_;
};

}  // namespace bonsai::check
