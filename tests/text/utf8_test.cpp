#include "core/text/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "core/base/utf8.h"

namespace bonsai::text {
namespace {

using State = Utf8Prefix::State;

TEST(Utf8, EveryScalarValueSurvivesEncodingAndDecoding) {
  for (char32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point == 0xD800) code_point = 0xE000;
    std::string text;
    append_utf8(text, code_point);
    ASSERT_EQ(find_invalid_utf8(text), std::string_view::npos) << uint32_t{code_point};
    size_t at = 0;
    ASSERT_EQ(uint32_t{next_code_point(text, at)}, uint32_t{code_point});
    ASSERT_EQ(at, text.size()) << uint32_t{code_point};
    const Utf8Prefix prefix = first_utf8_sequence(text);
    ASSERT_EQ(prefix.state, State::kWhole) << uint32_t{code_point};
    ASSERT_EQ(prefix.bytes, text.size()) << uint32_t{code_point};
  }
}

void expect_prefix(std::string_view bytes, State state, size_t length) {
  const Utf8Prefix prefix = first_utf8_sequence(bytes);
  EXPECT_EQ(prefix.state, state) << bonsai::quoted(bytes);
  EXPECT_EQ(prefix.bytes, length) << bonsai::quoted(bytes);
}

TEST(Utf8, AnUnfinishedSequenceIsToldFromAMalformedOne) {
  expect_prefix("\xC3", State::kUnfinished, 1);
  expect_prefix("\xE2\x82", State::kUnfinished, 2);
  expect_prefix("\xF0\x9F\x98", State::kUnfinished, 3);
  expect_prefix("\xC3x", State::kMalformed, 1);
  expect_prefix("\xE2\x82\xC3", State::kMalformed, 2);
  expect_prefix("\xF0\x9F\x98 ", State::kMalformed, 3);
}

TEST(Utf8, WhatNoContinuationCanRepairIsMalformedAtOnce) {
  expect_prefix("\x80", State::kMalformed, 1);
  expect_prefix("\xC0\xAF", State::kMalformed, 1);      // overlong
  expect_prefix("\xE0\x9F", State::kMalformed, 1);      // overlong
  expect_prefix("\xED\xA0\x80", State::kMalformed, 1);  // a surrogate
  expect_prefix("\xF0\x8F", State::kMalformed, 1);      // overlong
  expect_prefix("\xF4\x90", State::kMalformed, 1);      // above U+10FFFF
  expect_prefix("\xF5\x80", State::kMalformed, 1);
  expect_prefix("\xFF", State::kMalformed, 1);
}

}  // namespace
}  // namespace bonsai::text
