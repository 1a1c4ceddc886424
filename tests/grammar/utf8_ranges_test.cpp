#include "core/grammar/utf8_ranges.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/text/utf8.h"

namespace bonsai::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF, kLastCodePoint = 0x10FFFF;

std::string utf8(char32_t code_point) {
  std::string bytes;
  text::append_utf8(bytes, code_point);
  return bytes;
}

size_t n_spellings(const std::vector<ByteSequence> &sequences, const std::string &bytes) {
  return static_cast<size_t>(std::ranges::count_if(sequences, [&](const ByteSequence &sequence) {
    if (sequence.length != bytes.size()) return false;
    for (uint32_t i = 0; i < sequence.length; ++i) {
      const auto byte = static_cast<uint8_t>(bytes[i]);
      if (byte < sequence.ranges[i].first || byte > sequence.ranges[i].last) return false;
    }
    return true;
  }));
}

uint64_t n_combinations(const std::vector<ByteSequence> &sequences) {
  uint64_t sum = 0;
  for (const ByteSequence &sequence : sequences) {
    uint64_t product = 1;
    for (uint32_t i = 0; i < sequence.length; ++i)
      product *= static_cast<uint64_t>(sequence.ranges[i].last - sequence.ranges[i].first + 1);
    sum += product;
  }
  return sum;
}

// Each character of the range has one spelling, and there are no more than these.
void expect_exact(CodePoints range, std::mt19937 &random) {
  const std::string name = fmt::format("U+{:04X} to U+{:04X}", uint32_t{range.first}, uint32_t{range.last});
  std::vector<ByteSequence> sequences;
  append_utf8_sequences(range, sequences);
  for (const ByteSequence &sequence : sequences)
    for (uint32_t i = 0; i < sequence.length; ++i) ASSERT_LE(sequence.ranges[i].first, sequence.ranges[i].last) << name;
  ASSERT_EQ(n_combinations(sequences), range.last - range.first + 1) << name;
  std::uniform_int_distribution<uint32_t> within(range.first, range.last);
  for (int i = 0; i < 100; ++i) {
    const char32_t code_point = within(random);
    ASSERT_EQ(n_spellings(sequences, utf8(code_point)), 1u)
        << fmt::format("U+{:04X} of ", uint32_t{code_point}) << name;
  }
}

TEST(Utf8Ranges, SpellEveryCharacterOnce) {
  std::mt19937 random(7);
  for (const CodePoints range : {CodePoints{0, 0xD7FF},
                                 {0xE000, kLastCodePoint},
                                 {0x4E00, 0x9FA5},
                                 {0xAC00, 0xD7A3},
                                 {0x10000, 0x1F64F},
                                 {0x800, 0x4E2C},
                                 {0x4E2E, 0xD7FF},
                                 {'a', 'a'},
                                 {0x7F, 0xFFF}})
    expect_exact(range, random);
  for (int i = 0; i < 3000; ++i) {
    const bool is_low = i % 3 != 0;
    std::uniform_int_distribution<uint32_t> any(is_low ? 0 : kLastSurrogate + 1,
                                                is_low ? kFirstSurrogate - 1 : kLastCodePoint);
    const auto [first, last] = std::minmax({any(random), any(random)});
    expect_exact({char32_t{first}, char32_t{last}}, random);
  }
}

}  // namespace
}  // namespace bonsai::grammar
