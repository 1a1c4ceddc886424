// A program that runs every kernel on fixed inputs: its tiers must agree with each other, and its digests with those of
// the same program on another architecture. No test framework, so that it links statically for any machine.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu::digest {

// What a section's kernels gave, as words.
class Results {
 public:
  void add(float value) { words_.push_back(std::bit_cast<uint32_t>(value)); }
  // For results of which the sign and the payload of a NaN are the tier's own.
  void add_any_nan(float value) { add(std::isnan(value) ? std::bit_cast<float>(0x7FC00000u) : value); }
  void add(uint32_t word) { words_.push_back(word); }
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) words_.push_back(static_cast<uint32_t>(byte));
  }
  const std::vector<uint32_t> &words() const { return words_; }

 private:
  std::vector<uint32_t> words_;
};

// Some kernels on inputs that are the same in every run.
struct Section {
  std::string name;
  Results (*run)(const KernelTable &kernels, quant::Format format);
  quant::Format format = quant::Format::kF32;  // where it matters
};

std::vector<Section> vocabulary_sections();  // the operations beneath the kernels
std::vector<Section> product_sections();     // packing, quantisation and matmul for each format
std::vector<Section> row_sections();         // all others

// Floats of every kind, and values around which something changes: the bounds of exp, of binary16, of int32.
inline constexpr float kSpecial[] = {0.0f,
                                     -0.0f,
                                     0x1p-149f,
                                     -0x1p-130f,
                                     0x1p-126f,
                                     0x1.fffffep-127f,
                                     0x1p-25f,
                                     0x1.000002p-25f,
                                     -0x1.8p-24f,
                                     0x1.ffep-15f,
                                     65504.0f,
                                     65519.996f,
                                     -65520.0f,
                                     87.0f,
                                     -87.0f,
                                     -87.00001f,
                                     88.0f,
                                     88.5f,
                                     -88.0f,
                                     -104.0f,
                                     0x1p31f,
                                     -0x1p31f,
                                     0x1.fffffep30f,
                                     std::numeric_limits<float>::max(),
                                     std::numeric_limits<float>::lowest(),
                                     std::numeric_limits<float>::infinity(),
                                     -std::numeric_limits<float>::infinity(),
                                     std::numeric_limits<float>::quiet_NaN(),
                                     -std::numeric_limits<float>::quiet_NaN(),
                                     std::numeric_limits<float>::signaling_NaN()};

// The same numbers on every machine: neither std::normal_distribution nor a mathematical function promises that.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t bits() { return static_cast<uint32_t>(engine_()); }
  // From -2^exponent to 2^exponent, one in eight up to 16 times as large.
  float value(int exponent) {
    const float unit = static_cast<float>(static_cast<int32_t>(bits()) >> 8) * 0x1p-23f;
    return std::ldexp(unit, bits() % 8 == 0 ? exponent + 4 : exponent);
  }
  std::vector<float> values(size_t n, int exponent) {
    std::vector<float> values(n);
    for (float &one : values) one = value(exponent);
    return values;
  }

 private:
  std::mt19937 engine_;
};

// Bytes on a 64-byte boundary, zeros at first.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size) : size_(size), lines_((size + sizeof(Line) - 1) / sizeof(Line)) {}
  std::byte *data() { return lines_.empty() ? nullptr : lines_[0].bytes; }
  std::span<const std::byte> bytes() { return {data(), size_}; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  size_t size_;
  std::vector<Line> lines_;
};

}  // namespace bonsai::cpu::digest
