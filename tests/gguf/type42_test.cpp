// Promise: id 42 is read as what the file's author meant, or not at all.
#include "core/gguf/type42.h"

#include <gtest/gtest.h>

#include <string>

#include "core/gguf/file.h"
#include "tests/gguf/file_bytes.h"

namespace bonsai::gguf {
namespace {

constexpr size_t kBytesG128 = 34;  // for 128 weights
constexpr size_t kBytesG64 = 36;

// Tensors 'a' (128 columns) and 'b' (256 columns) of type 42, with so many bytes for every 128 weights; padded, and
// `slack` bytes after the last.
FileBytes two_tensors(uint64_t rows_a, size_t bytes_a, uint64_t rows_b, size_t bytes_b, size_t slack = 0) {
  FileBytes file;
  const size_t data_a = rows_a * bytes_a;
  file.header(2, 0);
  file.tensor("a", {128, rows_a}, 42, 0).tensor("b", {256, rows_b}, 42, (data_a + 31) / 32 * 32).align();
  file.zeros(data_a).align();
  return file.zeros(rows_b * 2 * bytes_b + slack);
}

Result<File> parse(const FileBytes &bytes) { return File::parse(bytes.bytes(), "f"); }

TEST(Type42, IsTQ2_0_G128WhenTheExtentsSaySo) {
  const FileBytes bytes = two_tensors(40, kBytesG128, 40, kBytesG128);
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->warnings().empty());
  for (const Tensor &tensor : file->tensors()) {
    EXPECT_EQ(tensor.gguf_type, 42u);
    EXPECT_EQ(tensor.format, quant::Format::kTQ2_0_G128);
    EXPECT_EQ(tensor.data.size(), tensor.rows() * tensor.columns() / 128 * 34);
  }
}

TEST(Type42, IsQ2_0_G64WhenTheExtentsSaySo) {
  const FileBytes bytes = two_tensors(40, kBytesG64, 40, kBytesG64);
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->warnings().empty());
  for (const Tensor &tensor : file->tensors()) {
    EXPECT_EQ(tensor.format, quant::Format::kQ2_0_G64);
    EXPECT_EQ(tensor.data.size(), tensor.rows() * tensor.columns() / 64 * 18);
  }
}

// The last tensor may be padded like the others, or not at all.
TEST(Type42, PaddingAtTheEndDoesNotMatter) {
  for (const size_t slack : {0u, 1u, 31u}) {
    const FileBytes g128 = two_tensors(32, kBytesG128, 32, kBytesG128, slack);
    ASSERT_TRUE(parse(g128)) << parse(g128).error().message;
    EXPECT_EQ(parse(g128)->tensors()[1].format, quant::Format::kTQ2_0_G128);
    const FileBytes g64 = two_tensors(32, kBytesG64, 32, kBytesG64, slack);
    ASSERT_TRUE(parse(g64)) << parse(g64).error().message;
    EXPECT_EQ(parse(g64)->tensors()[1].format, quant::Format::kQ2_0_G64);
  }
}

// One row of 256 weights takes 68 or 72 bytes, 96 when padded: small tensors follow the file's large ones.
TEST(Type42, SmallTensorsFollowTheOnesThatDecide) {
  FileBytes bytes;
  bytes.header(2, 0).tensor("small", {256, 1}, 42, 0).tensor("large", {128, 40}, 42, 96).align();
  bytes.zeros(96 + 40 * kBytesG128);
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find_tensor("small")->format, quant::Format::kTQ2_0_G128);
  EXPECT_EQ(file->find_tensor("small")->data.size(), 68u);
}

TEST(Type42, TensorsOfOtherTypesBoundTheExtents) {
  FileBytes bytes;
  bytes.header(2, 0).tensor("t", {128, 32}, 42, 0).tensor("norm", {100}, 0, 32 * kBytesG128).align();
  bytes.zeros(32 * kBytesG128 + 400);
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find_tensor("t")->format, quant::Format::kTQ2_0_G128);
}

TEST(Type42, RowsThatAreNoMultipleOf128AreG64) {
  FileBytes bytes;
  bytes.header(1, 0).tensor("t", {192}, 42, 0).align().zeros(3 * 18);
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors()[0].format, quant::Format::kQ2_0_G64);
  EXPECT_TRUE(file->warnings().empty());
}

TEST(Type42, UndecidedIsGgmlsMeaningWithAWarning) {
  FileBytes bytes;
  bytes.header(1, 0).tensor("t", {256}, 42, 0).align().zeros(96);
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors()[0].format, quant::Format::kQ2_0_G64);
  ASSERT_EQ(file->warnings().size(), 1u);
  EXPECT_EQ(file->warnings()[0], "type 42 means Q2_0 or PQ2_0 and no tensor is large enough to tell; read as Q2_0");
}

// Other programs' padding, or bytes behind the last tensor, say nothing against what the others decide.
TEST(Type42, WhatLiesBehindATensorDoesNotMatterWhereOthersDecide) {
  for (const size_t bytes_each : {kBytesG128, kBytesG64}) {
    const FileBytes tail = two_tensors(40, bytes_each, 40, bytes_each, 100);
    ASSERT_TRUE(parse(tail)) << parse(tail).error().message;
    EXPECT_EQ(parse(tail)->tensors()[1].data.size(), 80 * bytes_each);
    EXPECT_TRUE(parse(tail)->warnings().empty());
    FileBytes padded;  // to 4096, where 2048 blocks of either size end
    padded.header(2, 0).tensor("odd", {128, 40}, 42, 0).tensor("even", {128, 2048}, 42, 4096).align();
    padded.zeros(4096 + 2048 * bytes_each);
    ASSERT_TRUE(parse(padded)) << parse(padded).error().message;
    EXPECT_EQ(parse(padded)->find_tensor("odd")->data.size(), 40 * bytes_each);
  }
}

TEST(Type42, ATensorWithoutRoomForWhatOthersDecideIsRefused) {
  FileBytes bytes;
  bytes.header(2, 0).tensor("t", {128, 40}, 42, 0).tensor("u", {128, 40}, 42, 1440).align().zeros(1440 + 1400);
  const auto file = parse(bytes);
  ASSERT_FALSE(file);
  EXPECT_EQ(
      file.error().message,
      "f: type of 'u' at byte 94: found 42 with 1400 bytes to the next tensor or the end, expected 1440 (Q2_0) or "
      "1360 (PQ2_0) and padding below 32");
}

TEST(Type42, FittingNeitherIsRefused) {
  FileBytes bytes;
  bytes.header(1, 0).tensor("t", {128, 40}, 42, 0).align().zeros(40 * 35);
  const auto file = parse(bytes);
  ASSERT_FALSE(file);
  EXPECT_EQ(
      file.error().message,
      "f: type of 't' at byte 53: found 42 with 1400 bytes to the next tensor or the end, expected 1440 (Q2_0) or "
      "1360 (PQ2_0) and padding below 32");
}

TEST(Type42, FittingNeitherWithRowsOf64IsRefused) {
  FileBytes bytes;
  bytes.header(1, 0).tensor("t", {192, 10}, 42, 0).align().zeros(580);
  const auto file = parse(bytes);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message,
            "f: type of 't' at byte 53: found 42 with 580 bytes to the next tensor or the end, expected 540 (Q2_0) and "
            "padding below 32");
}

TEST(Type42, PartialBlocksAreRefused) {
  FileBytes bytes;
  bytes.header(1, 0).tensor("t", {100, 10}, 42, 0).align().zeros(540);
  const auto file = parse(bytes);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message,
            "f: type of 't' at byte 53: found 42 with rows of 100 weights, expected a multiple of 64");
}

TEST(Type42, TensorsThatContradictEachOtherAreRefused) {
  const FileBytes bytes = two_tensors(40, kBytesG64, 40, kBytesG128);
  const auto file = parse(bytes);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message,
            "f: type of 'b' at byte 94: found 42, by its extent PQ2_0, while tensor 'a' is Q2_0 by its own; expected "
            "one meaning per file");
}

// Beyond 2^56 weights sizes still do not overflow: the extents are compared, and do not fit.
TEST(Type42, HugeTensorsAreRefused) {
  const Type42Tensor huge{"t", 45, uint64_t{1} << 31, (uint64_t{1} << 32) - 1, 1000};
  const auto meaning = resolve_type_42(std::span(&huge, 1), 32);
  ASSERT_FALSE(meaning);
  EXPECT_TRUE(meaning.error().message.starts_with("type of 't' at byte 45: found 42 with 1000 bytes"));
}

}  // namespace
}  // namespace bonsai::gguf
