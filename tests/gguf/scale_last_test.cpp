// Promise: files whose ternary blocks end with their scale are read as what they mean, and nobody
// downstream can tell.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "core/gguf/file.h"
#include "core/gguf/validate.h"
#include "core/gguf/writer.h"
#include "tests/gguf/file_bytes.h"

namespace bonsai::gguf {
namespace {

constexpr size_t kCodeBytes = 32;
constexpr uint64_t kRows = 40;
constexpr uint64_t kColumns = 256;
constexpr size_t kBlocks = kRows * kColumns / 128;

struct Block {
  uint16_t scale;
  uint8_t codes[kCodeBytes];
};

std::vector<Block> random_blocks() {
  std::mt19937 random(1);
  std::vector<Block> blocks(kBlocks);
  for (Block &block : blocks) {
    block.scale = static_cast<uint16_t>(0x2000 + random() % 0x1000);
    for (uint8_t &codes : block.codes) codes = static_cast<uint8_t>(random() % 3 * 0x15 + random() % 2 * 0x40);
  }
  return blocks;
}

FileBytes &put(FileBytes &file, const std::vector<Block> &blocks, bool scale_last) {
  for (const Block &block : blocks) {
    if (!scale_last) file.number(block.scale);
    for (const uint8_t codes : block.codes) file.u8(codes);
    if (scale_last) file.number(block.scale);
  }
  return file;
}

// A ternary matrix of `type` after a norm, as OxiBonsai writes it or as everyone else does.
FileBytes ternary_file(uint32_t type, bool scale_last) {
  FileBytes file;
  file.header(2, 1);
  if (scale_last) {
    file.key("general.quantization_version", ValueType::kString).text("TQ2_0_G128");
  } else {
    file.key("general.quantization_version", ValueType::kUint32).u32(2);
  }
  file.tensor("norm", {8}, 0, 0).tensor("w", {kColumns, kRows}, type, 32).align();
  for (int i = 0; i < 8; ++i) file.number(static_cast<float>(i));
  return put(file, random_blocks(), scale_last);
}

std::string write_temporary(const FileBytes &bytes) {
  std::string path = (std::filesystem::temp_directory_path() / ("scale-last-" + std::to_string(::getpid()))).string();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char *>(bytes.bytes().data()), static_cast<std::streamsize>(bytes.size()));
  return path;
}

void expect_same_tensors(const File &file, const File &expected) {
  ASSERT_EQ(file.tensors().size(), expected.tensors().size());
  for (const Tensor &tensor : file.tensors()) {
    const Tensor *other = expected.find_tensor(tensor.name);
    EXPECT_EQ(tensor.format, other->format);
    ASSERT_EQ(tensor.data.size(), other->data.size());
    EXPECT_EQ(std::memcmp(tensor.data.data(), other->data.data(), tensor.data.size()), 0) << tensor.name;
  }
}

TEST(ScaleLast, ReadsAsIfTheScalesCameFirst) {
  const FileBytes expected_bytes = ternary_file(142, false);
  const auto expected = File::parse(expected_bytes.bytes(), "expected");
  ASSERT_TRUE(expected) << expected.error().message;
  for (const uint32_t type : {42u, 142u}) {
    const FileBytes bytes = ternary_file(type, true);
    const auto file = File::parse(bytes.bytes(), "f");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_TRUE(file->warnings().empty());
    EXPECT_EQ(file->find_tensor("w")->gguf_type, type);
    expect_same_tensors(*file, *expected);
  }
}

// A mapped file gives back pages, of the copy too: those must not lose their contents. And a File may be moved.
TEST(ScaleLast, TheCopySurvivesValidationAndMoving) {
  const FileBytes expected_bytes = ternary_file(142, false);
  const auto expected = File::parse(expected_bytes.bytes(), "expected");
  const std::string path = write_temporary(ternary_file(42, true));
  auto opened = File::open(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(opened) << opened.error().message;
  const File file = std::move(*opened);
  EXPECT_TRUE(validate(file).usable());
  for (const Tensor &tensor : file.tensors()) file.release(tensor.data);
  expect_same_tensors(file, *expected);
}

// Extents that fit both meanings of 42 need no warning: the mark says which.
TEST(ScaleLast, TheMarkDecidesWhatExtentsDoNot) {
  FileBytes bytes;
  bytes.header(1, 1).key("general.quantization_version", ValueType::kString).text("TQ2_0_G128");
  bytes.tensor("w", {256}, 42, 0).align().zeros(96);
  const auto file = File::parse(bytes.bytes(), "f");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors()[0].format, quant::Format::kTQ2_0_G128);
  EXPECT_TRUE(file->warnings().empty());
}

TEST(ScaleLast, ExtentsThatContradictTheMarkAreRefused) {
  FileBytes bytes;
  bytes.header(1, 1).key("general.quantization_version", ValueType::kString).text("TQ2_0_G128");
  bytes.tensor("w", {128, 40}, 42, 0).align().zeros(40 * 36);
  const auto file = File::parse(bytes.bytes(), "f");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message,
            "f: type of 'w' at byte 111: found 42, by the extents Q2_0, while 'general.quantization_version' is "
            "'TQ2_0_G128'; expected one meaning");
}

// Only ternary blocks of 128 are meant; another string means nothing.
TEST(ScaleLast, OtherFormatsAndOtherStringsAreLeftAlone) {
  for (const char *mark : {"TQ2_0_G128", "2"}) {
    FileBytes bytes;
    bytes.header(1, 1).key("general.quantization_version", ValueType::kString).text(mark);
    bytes.tensor("w", {128}, mark[0] == 'T' ? 41 : 142, 0).align();
    for (uint8_t i = 0; i < 34; ++i) bytes.u8(i);
    const auto file = File::parse(bytes.bytes(), "f");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->tensors()[0].data[0], std::byte{0}) << mark;
  }
}

// Copied metadata must not mark a file of ours: its blocks begin with the scale.
TEST(ScaleLast, TheMarkIsNotWritten) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("scale-last-" + std::to_string(getpid()))).string();
  auto out = Writer::create(path);
  ASSERT_TRUE(out) << out.error().message;
  out->set_string("general.quantization_version", "TQ2_0_G128");
  const auto begun = out->begin_data();
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().message, path +
                                       ": general.quantization_version: found 'TQ2_0_G128', which marks blocks that "
                                       "end with their scale; they are written with it first");
}

}  // namespace
}  // namespace bonsai::gguf
