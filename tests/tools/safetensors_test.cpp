// Promises of the safetensors reader: a file that lies about itself is refused in one line that names the tensor.
#include "tools/convert/safetensors.h"

#include <gtest/gtest.h>

#include "tests/tools/tiny_checkpoint.h"

namespace bonsai::convert {
namespace {

// The message less the path, or "opened".
std::string outcome(const std::string &bytes) {
  test::TemporaryDirectory directory;
  const std::string path = directory.file("model.safetensors");
  test::write_file(path, bytes);
  auto file = SafetensorsFile::open(path);
  if (file) return "opened";
  const std::string prefix = path + ": ";
  EXPECT_TRUE(file.error().message.starts_with(prefix)) << file.error().message;
  return file.error().message.substr(prefix.size());
}

std::string outcome(const std::string &header, size_t data_bytes) {
  return outcome(test::safetensors(header, std::string(data_bytes, '\0')));
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  test::TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  test::write_file(path, test::safetensors({{"z", "F16", {2, 3}, "abcdefghijkl"}, {"a", "F32", {1}, "mnop"}}));
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].name, "z");
  EXPECT_EQ(file->tensors()[0].format, quant::Format::kF16);
  EXPECT_EQ(file->tensors()[0].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(file->tensors()[1].name, "a");
  EXPECT_EQ(file->tensors()[1].bytes.size(), 4u);
  EXPECT_EQ(std::to_integer<char>(file->tensors()[1].bytes[0]), 'm');
}

// Whether it is needed is for others to say.
TEST(Safetensors, ReadsATensorOfAnotherType) {
  test::TemporaryDirectory directory;
  const std::string path = directory.file("a.safetensors");
  test::write_file(path, test::safetensors({{"ids", "I64", {1}, "abcdefgh"}, {"a", "F32", {1}, "mnop"}}));
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors()[0].format, std::nullopt);
  EXPECT_EQ(file->tensors()[0].dtype, "\"I64\"");
  EXPECT_EQ(file->tensors()[0].bytes.size(), 8u);
  EXPECT_EQ(file->tensors()[1].format, quant::Format::kF32);
}

TEST(Safetensors, NamesAPointerOfGitLfs) {
  EXPECT_EQ(outcome("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"),
            "found a Git LFS pointer, which `git lfs pull` replaces by the file; expected safetensors");
}

TEST(Safetensors, RefusesAFileThatEndsInItsHeader) {
  EXPECT_EQ(outcome("1234567"), "expected at least 8 bytes (the header's length), found 7");
  const std::string whole = test::safetensors({{"a", "F32", {1}, "mnop"}});
  EXPECT_EQ(outcome(whole.substr(0, 20)),
            "header length: expected at most 12 bytes, found " + std::to_string(whole.size() - 12));
  EXPECT_EQ(outcome(std::string(8, '\xFF')), "header length: expected at most 0 bytes, found 18446744073709551615");
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = test::safetensors({{"a", "F32", {2}, "abcdefgh"}, {"b", "BF16", {2}, "ijkl"}});
  ASSERT_EQ(outcome(whole), "opened");
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(outcome(whole.substr(0, size)), "opened") << size;
}

TEST(Safetensors, RefusesAHeaderThatIsNoObject) {
  EXPECT_EQ(outcome("{\"a\":", 0), "malformed JSON at byte 6");
  EXPECT_EQ(outcome("[1]", 0), "expected a JSON object, found array");
  EXPECT_EQ(outcome(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                    R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                    4),
            "a: the key occurs twice");
  EXPECT_EQ(outcome(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4), "opened")
      << "of a key within a tensor the last counts";
}

TEST(Safetensors, RefusesAWrongEntry) {
  EXPECT_EQ(outcome(R"({"a":{"dtype":64,"shape":[1],"data_offsets":[0,8]}})", 8),
            "a: dtype: expected a name such as F32, found 64");
  EXPECT_EQ(outcome(R"({"a":7})", 8), "a: dtype: expected a name such as F32, found nothing");
  EXPECT_EQ(outcome(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
            "a: shape: expected an array of whole numbers");
  EXPECT_EQ(outcome(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4),
            "a: data_offsets: expected two whole numbers");
  EXPECT_EQ(outcome(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
            "a: data_offsets: expected a range within the 4 bytes of data, found 4 to 0");
  EXPECT_EQ(outcome(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
            "a: data_offsets: expected a range within the 4 bytes of data, found 0 to 8");
  EXPECT_EQ(outcome(R"({"a":{"dtype":"F16","shape":[2,2],"data_offsets":[0,4]}})", 4),
            "a: data_offsets: the shape asks for 8 bytes, found 4");
  EXPECT_EQ(outcome(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4),
            "a: data_offsets: the shape asks for more than 2^64 bytes, found 4");
}

TEST(Safetensors, RefusesGapsAndOverlaps) {
  const std::string first = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)";
  EXPECT_EQ(outcome(first + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
            "b: data_offsets: expected to begin at 8, where the data before it ends, found 4");
  EXPECT_EQ(outcome(first + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16),
            "b: data_offsets: expected to begin at 8, where the data before it ends, found 12");
  EXPECT_EQ(outcome(first + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 16),
            "the tensors end at byte 12 of the data, the file has 16");
}

}  // namespace
}  // namespace bonsai::convert
