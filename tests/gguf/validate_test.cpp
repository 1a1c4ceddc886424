// Promise: `bonsai validate` sees what would spoil results or a ternary kernel, and counts it exactly.
#include "core/gguf/validate.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/gguf/file_bytes.h"

namespace bonsai::gguf {
namespace {

constexpr uint16_t kHalfOne = 0x3C00;
constexpr uint16_t kHalfInfinity = 0x7C00;
constexpr uint16_t kHalfNaN = 0x7E01;

// A block of 2-bit codes: scale and a byte of codes, repeated.
FileBytes &two_bit_block(FileBytes &file, uint16_t scale, uint8_t codes, size_t n_bytes) {
  file.number(scale);
  for (size_t i = 0; i < n_bytes; ++i) file.u8(codes);
  return file;
}

TEST(Validate, FindsNothingInAGoodFile) {
  FileBytes bytes;
  bytes.header(2, 0).tensor("a", {128, 2}, 142, 0).tensor("b", {3}, 0, 96).align();
  two_bit_block(two_bit_block(bytes, kHalfOne, 0b10'01'00'10, 32), kHalfOne, 0, 32).align();
  bytes.number(1.0f).number(-0.0f).number(1e-40f);
  const auto file = File::parse(bytes.bytes(), "f");
  ASSERT_TRUE(file) << file.error().message;
  const ValidationReport report = validate(*file);
  ASSERT_EQ(report.tensors.size(), 2u);
  EXPECT_EQ(report.tensors[0].name, "a");
  EXPECT_EQ(report.tensors[0].format, quant::Format::kTQ2_0_G128);
  EXPECT_EQ(report.tensors[0].weights, 256u);
  EXPECT_EQ(report.tensors[0].blocks, 2u);
  EXPECT_TRUE(report.tensors[0].clean());
  EXPECT_TRUE(report.tensors[1].clean());
  EXPECT_EQ(report.weights, 259u);
  EXPECT_TRUE(report.usable());
}

// Code 3 makes a tensor other than ternary, but its values are still numbers.
TEST(Validate, CountsCode3InBothTernaryFormats) {
  FileBytes bytes;
  bytes.header(2, 0).tensor("g128", {128, 20}, 142, 0).tensor("g64", {64, 20}, 42, 704).align();
  for (int i = 0; i < 20; ++i) two_bit_block(bytes, kHalfOne, i == 7 ? 0b11'01'11'00 : 0, 32);
  bytes.align();
  for (int i = 0; i < 20; ++i) two_bit_block(bytes, kHalfOne, i == 19 ? 0xFF : 0b10'10'10'10, 16);
  const auto file = File::parse(bytes.bytes(), "f");
  ASSERT_TRUE(file) << file.error().message;
  const ValidationReport report = validate(*file);
  EXPECT_EQ(report.tensors[0].code3, 64u);
  EXPECT_EQ(report.tensors[1].format, quant::Format::kQ2_0_G64);
  EXPECT_EQ(report.tensors[1].code3, 64u);
  EXPECT_FALSE(report.tensors[0].clean());
  EXPECT_EQ(report.code3, 128u);
  EXPECT_TRUE(report.usable());
}

TEST(Validate, CountsScalesThatAreNoNumbers) {
  FileBytes bytes;
  bytes.header(1, 0).tensor("t", {128, 4}, 142, 0).align();
  for (const uint16_t scale : {kHalfOne, kHalfInfinity, kHalfOne, kHalfNaN}) two_bit_block(bytes, scale, 0, 32);
  const auto file = File::parse(bytes.bytes(), "f");
  ASSERT_TRUE(file) << file.error().message;
  const ValidationReport report = validate(*file);
  EXPECT_EQ(report.tensors[0].nonfinite_blocks, 2u);
  EXPECT_EQ(report.nonfinite_blocks, 2u);
  EXPECT_FALSE(report.usable());
}

TEST(Validate, CountsValuesThatAreNoNumbers) {
  FileBytes bytes;
  bytes.header(3, 0).tensor("f32", {4}, 0, 0).tensor("f16", {3}, 1, 32).tensor("bf16", {2}, 30, 64).align();
  bytes.number(1.0f).number(std::numeric_limits<float>::quiet_NaN()).number(-std::numeric_limits<float>::infinity());
  bytes.number(2.0f).align();
  bytes.number(kHalfOne).number(kHalfNaN).number(kHalfOne).align();
  bytes.number<uint16_t>(0x7F80).number<uint16_t>(0x3F80);
  const auto file = File::parse(bytes.bytes(), "f");
  ASSERT_TRUE(file) << file.error().message;
  const ValidationReport report = validate(*file);
  EXPECT_EQ(report.tensors[0].nonfinite_blocks, 2u);
  EXPECT_EQ(report.tensors[1].nonfinite_blocks, 1u);
  EXPECT_EQ(report.tensors[2].nonfinite_blocks, 1u);
  EXPECT_EQ(report.nonfinite_blocks, 4u);
}

}  // namespace
}  // namespace bonsai::gguf
