// Promise: what a good file says is what the reader gives, value for value and byte for byte.
#include "core/gguf/file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/gguf/file_bytes.h"

namespace bonsai::gguf {
namespace {

class OneOfEverything : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    bytes_ = one_of_everything(GetParam()).bytes();
    auto file = File::parse(bytes_, "memory");
    ASSERT_TRUE(file) << file.error().message;
    file_.emplace(std::move(*file));
  }
  const Value &value(std::string_view key) const { return *file_->find(key); }

  std::vector<std::byte> bytes_;
  std::optional<File> file_;
};

TEST_P(OneOfEverything, HeaderIsKept) {
  EXPECT_EQ(file_->version(), GetParam());
  EXPECT_EQ(file_->alignment(), 64u);
  EXPECT_EQ(file_->path(), "memory");
  EXPECT_EQ(file_->file_bytes(), bytes_.size());
  EXPECT_FALSE(file_->is_mapped());
  EXPECT_EQ(file_->parts(), 1u);
  EXPECT_TRUE(file_->warnings().empty());
}

TEST_P(OneOfEverything, ScalarsKeepTypeAndValue) {
  EXPECT_EQ(value("u8").as_uint(), 200u);
  EXPECT_EQ(value("i8").as_int(), -100);
  EXPECT_EQ(value("u16").as_uint(), 60000u);
  EXPECT_EQ(value("i16").as_int(), -30000);
  EXPECT_EQ(value("u32").as_uint(), 4000000000u);
  EXPECT_EQ(value("i32").as_int(), -2000000000);
  EXPECT_EQ(value("u64").as_uint(), UINT64_MAX);
  EXPECT_EQ(value("i64").as_int(), INT64_MIN);
  EXPECT_EQ(value("f32").as_number(), 1.5);
  EXPECT_EQ(value("f64").as_number(), -2.25);
  EXPECT_EQ(value("bool").as_bool(), true);
  EXPECT_EQ(value("text").as_string(), "a \"word\"\n");
  EXPECT_EQ(value("i16").type, ValueType::kInt16);
  EXPECT_EQ(value("f64").type, ValueType::kFloat64);
}

// A reader gets a number in the type it asked for when the value allows, and nothing otherwise: never a wrapped one.
TEST_P(OneOfEverything, NumbersConvertOnlyWhereTheyFit) {
  EXPECT_EQ(value("u8").as_int(), 200);
  EXPECT_EQ(value("u8").as_number(), 200.0);
  EXPECT_EQ(value("i8").as_number(), -100.0);
  EXPECT_EQ(value("i8").as_uint(), std::nullopt);
  EXPECT_EQ(value("u64").as_int(), std::nullopt);
  EXPECT_EQ(value("f32").as_uint(), std::nullopt);
  EXPECT_EQ(value("bool").as_uint(), std::nullopt);
  EXPECT_EQ(value("u8").as_bool(), std::nullopt);
  EXPECT_EQ(value("text").as_number(), std::nullopt);
  EXPECT_EQ(value("u8").as_string(), std::nullopt);
  EXPECT_EQ(value("u8").as_array(), nullptr);
}

TEST_P(OneOfEverything, ArraysGiveTheirElements) {
  const Array *strings = value("strings").as_array();
  ASSERT_NE(strings, nullptr);
  EXPECT_EQ(strings->strings(), (std::vector<std::string_view>{"", "b", "\xC3\xA9t\xC3\xA9"}));
  EXPECT_EQ(strings->integers(), std::nullopt);
  EXPECT_EQ(strings->numbers(), std::nullopt);
  const Array *numbers = value("numbers").as_array();
  EXPECT_EQ(numbers->integers(), (std::vector<int64_t>{-1, 0, 7}));
  EXPECT_EQ(numbers->numbers(), (std::vector<double>{-1, 0, 7}));
  EXPECT_EQ(value("flags").as_array()->integers(), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(value("flags").as_array()->numbers(), std::nullopt);
  EXPECT_EQ(value("empty").as_array()->numbers(), std::vector<double>{});
  EXPECT_EQ(value("empty").as_array()->integers(), std::nullopt);
}

TEST_P(OneOfEverything, TensorsAreWhereTheFileSaysTheyAre) {
  ASSERT_EQ(file_->tensors().size(), 4u);
  const Tensor &ternary = *file_->find_tensor("ternary");
  EXPECT_EQ(&ternary, &file_->tensors()[2]);
  EXPECT_EQ(ternary.shape, (std::vector<uint64_t>{128, 1, 2}));
  EXPECT_EQ(ternary.columns(), 128u);
  EXPECT_EQ(ternary.rows(), 2u);
  EXPECT_EQ(ternary.gguf_type, 142u);
  EXPECT_EQ(ternary.format, quant::Format::kTQ2_0_G128);
  ASSERT_EQ(ternary.data.size(), 68u);
  for (size_t i = 0; i < 68; ++i) EXPECT_EQ(ternary.data[i], static_cast<std::byte>(i));
  EXPECT_EQ(file_->find_tensor("norm")->rows(), 1u);
  EXPECT_EQ(file_->find_tensor("halves")->data.size(), 12u);
}

TEST_P(OneOfEverything, WhatIsNotThereIsNull) {
  EXPECT_EQ(file_->find("absent"), nullptr);
  EXPECT_EQ(file_->find(""), nullptr);
  EXPECT_EQ(file_->find("u"), nullptr);
  EXPECT_EQ(file_->find("zzz"), nullptr);
  EXPECT_EQ(file_->find_tensor("nor"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Versions, OneOfEverything, testing::Values(2u, 3u));

TEST(File, WithoutTensorsMayEndAnywhereAfterItsMetadata) {
  FileBytes bytes;
  bytes.header(0, 1).key("k", ValueType::kUint8).u8(1);
  const auto file = File::parse(bytes.bytes(), "memory");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->tensors().empty());
}

// Data may stand in any order, with gaps: only what overlaps or reaches outside is wrong.
TEST(File, TensorDataMayStandInAnyOrder) {
  FileBytes bytes;
  bytes.header(2, 0).tensor("late", {1}, 0, 96).tensor("early", {1}, 0, 32).align();
  bytes.zeros(32).u32(1).align();
  bytes.zeros(32).u32(2);
  const auto file = File::parse(bytes.bytes(), "memory");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find_tensor("early")->data[0], std::byte{1});
  EXPECT_EQ(file->find_tensor("late")->data[0], std::byte{2});
}

TEST(File, Uint64ArraysBeyondInt64AreNotIntegers) {
  FileBytes bytes;
  bytes.header(0, 1).array("k", ValueType::kUint64, 2).u64(1).u64(UINT64_MAX);
  const auto file = File::parse(bytes.bytes(), "memory");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->find("k")->as_array()->integers(), std::nullopt);
  EXPECT_EQ(file->find("k")->as_array()->numbers(), (std::vector<double>{1, 0x1p64}));
}

TEST(File, OpenMapsAndNamesTheFile) {
  const auto absent = File::open("/nonexistent/model.gguf");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message, "/nonexistent/model.gguf: cannot open: No such file or directory");
}

// A real vocabulary, read whole: 151,936 tokens and their merges.
TEST(File, ReadsTheQwen3Vocabulary) {
  const std::string path = BONSAI_SHARED_DATA "/qwen3-vocab.gguf";
  const auto file = File::open(path);
  if (!file && file.error().message.ends_with("No such file or directory")) GTEST_SKIP() << "no " << path;
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->is_mapped());
  EXPECT_EQ(file->file_bytes(), std::filesystem::file_size(path));
  EXPECT_EQ(file->find("general.architecture")->as_string(), "qwen3");
  const Array *tokens = file->find("tokenizer.ggml.tokens")->as_array();
  ASSERT_NE(tokens, nullptr);
  const auto strings = tokens->strings();
  EXPECT_EQ(strings.size(), tokens->count);
  EXPECT_EQ(strings[0], "!");
  EXPECT_EQ(strings[151643], "<|endoftext|>");
}

}  // namespace
}  // namespace bonsai::gguf
