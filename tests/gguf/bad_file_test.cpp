// Promise: a bad file is refused with one line that names the field, its byte offset, and what was expected.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/gguf/file.h"
#include "tests/gguf/file_bytes.h"

namespace bonsai::gguf {
namespace {

struct BadFile {
  const char *name;
  std::function<void(FileBytes &)> build;
  std::string message;  // after "bad.gguf: "
};

// One key, 'k', of a type; its value starts at byte 37.
FileBytes &one_key(FileBytes &file, ValueType type) { return file.header(0, 1).key("k", type); }
// One array, 'k'; the element type is at byte 37, the count at 41, elements from 49.
FileBytes &one_array(FileBytes &file, ValueType type, uint64_t n) { return file.header(0, 1).array("k", type, n); }

const char kReadable[] =
    "expected one of 0 (F32), 1 (F16), 30 (BF16), 8 (Q8_0), 2 (Q4_0), 41 (Q1_0), 142 (PQ2_0), 42 (Q2_0), 143 (PTQ1_0), "
    "35 (TQ2_0), 34 (TQ1_0), 43 (F8_E4M3), 44 (F8_E5M2), 3 (Q4_1), 6 (Q5_0), 7 (Q5_1), 10 (Q2_K), 11 (Q3_K), "
    "12 (Q4_K), 13 (Q5_K), 14 (Q6_K), 15 (Q8_K), 20 (IQ4_NL), 23 (IQ4_XS)";

const std::vector<BadFile> &header_cases() {
  static const std::vector<BadFile> cases = {
      {"Empty", [](FileBytes &) {}, "magic at byte 0: expected 4 bytes, 0 remain"},
      {"ThreeBytes", [](FileBytes &f) { f.u8('G').u8('G').u8('U'); }, "magic at byte 0: expected 4 bytes, 3 remain"},
      {"OtherMagic", [](FileBytes &f) { f.u32(0x67676d6c).zeros(40); },
       "magic at byte 0: found 0x67676d6c, expected 0x46554747 (GGUF)"},
      {"LfsPointer",
       [](FileBytes &f) {
         for (const char c : std::string("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n")) f.number(c);
       },
       "magic at byte 0: found a Git LFS pointer, which `git lfs pull` replaces by the file; expected 0x46554747 "
       "(GGUF)"},
      {"NoVersion", [](FileBytes &f) { f.u32(0x46554747); }, "version at byte 4: expected 4 bytes, 0 remain"},
      {"Version0", [](FileBytes &f) { f.header(0, 0, 0); }, "version at byte 4: found 0, expected 2 or 3"},
      {"Version1", [](FileBytes &f) { f.header(0, 0, 1); }, "version at byte 4: found 1, expected 2 or 3"},
      {"Version4", [](FileBytes &f) { f.header(0, 0, 4); }, "version at byte 4: found 4, expected 2 or 3"},
      {"BigEndian", [](FileBytes &f) { f.header(0, 0, 0x03000000); },
       "version at byte 4: found 0x03000000, a big-endian file; expected little-endian"},
      {"NoTensorCount", [](FileBytes &f) { f.u32(0x46554747).u32(3).u32(0); },
       "tensor count at byte 8: expected 8 bytes, 4 remain"},
      {"NoMetadataCount", [](FileBytes &f) { f.u32(0x46554747).u32(3).u64(0).u8(0); },
       "metadata count at byte 16: expected 8 bytes, 1 remain"},
      {"LyingTensorCount", [](FileBytes &f) { f.header(uint64_t{1} << 60, 0).zeros(100); },
       "tensor count at byte 8: found 1152921504606846976, expected at most 3 in the 108 bytes left"},
      {"LyingMetadataCount", [](FileBytes &f) { f.header(0, UINT64_MAX).zeros(30); },
       "metadata count at byte 16: found 18446744073709551615, expected at most 2 in the 30 bytes left"},
  };
  return cases;
}

const std::vector<BadFile> &key_cases() {
  static const std::vector<BadFile> cases = {
      {"KeyCutOff", [](FileBytes &f) { f.header(0, 1).u64(100).zeros(20); },
       "metadata key 0 at byte 24: a string of 100 bytes, expected at most the 20 that remain"},
      {"KeyLengthOverflows", [](FileBytes &f) { f.header(0, 1).u64(UINT64_MAX).zeros(20); },
       "metadata key 0 at byte 24: a string of 18446744073709551615 bytes, expected at most the 20 that remain"},
      {"KeyTooLong", [](FileBytes &f) { f.header(0, 1).text(std::string(65536, 'k')).zeros(20); },
       "metadata key 0 at byte 24: a name of 65536 bytes, expected at most 65535"},
      {"KeyNotUtf8", [](FileBytes &f) { f.header(0, 1).key("ab\xFF", ValueType::kUint8).u8(0); },
       "metadata key 0 at byte 24: 'ab\\xff' is not UTF-8 from its byte 2 on"},
      {"KeyTwice",
       [](FileBytes &f) { f.header(0, 2).key("k", ValueType::kUint8).u8(0).key("k", ValueType::kUint8).u8(0); },
       "metadata key 1 at byte 38: 'k' is already at byte 24, expected each key once"},
      {"NameWithNewline", [](FileBytes &f) { f.header(0, 1).key("a\nb", ValueType::kUint32).u8(0); },
       "value of 'a\\x0ab' at byte 39: expected 4 bytes, 1 remain"},
      {"AlignmentNotUint32", [](FileBytes &f) { f.header(0, 1).key("general.alignment", ValueType::kUint64).u64(32); },
       "value of 'general.alignment' at byte 49: found a value of type uint64, expected uint32"},
      {"AlignmentZero", [](FileBytes &f) { f.header(0, 1).key("general.alignment", ValueType::kUint32).u32(0); },
       "value of 'general.alignment' at byte 49: found 0, expected a power of two"},
      {"AlignmentOdd", [](FileBytes &f) { f.header(0, 1).key("general.alignment", ValueType::kUint32).u32(48); },
       "value of 'general.alignment' at byte 49: found 48, expected a power of two"},
  };
  return cases;
}

const std::vector<BadFile> &value_cases() {
  static const std::vector<BadFile> cases = {
      {"TypeCutOff", [](FileBytes &f) { f.header(0, 1).text("kkkk").u8(0); },
       "value type of 'kkkk' at byte 36: expected 4 bytes, 1 remain"},
      {"UnknownType", [](FileBytes &f) { one_key(f, static_cast<ValueType>(13)).zeros(8); },
       "value type of 'k' at byte 33: found 13, expected a value type from 0 to 12"},
      {"ValueCutOff", [](FileBytes &f) { one_key(f, ValueType::kUint64).u32(0); },
       "value of 'k' at byte 37: expected 8 bytes, 4 remain"},
      {"BoolOfTwo", [](FileBytes &f) { one_key(f, ValueType::kBool).u8(2); },
       "value of 'k' at byte 37: found 2, expected a bool, 0 or 1"},
      {"StringCutOff", [](FileBytes &f) { one_key(f, ValueType::kString).u64(9).zeros(8); },
       "value of 'k' at byte 37: a string of 9 bytes, expected at most the 8 that remain"},
      {"UnknownElementType", [](FileBytes &f) { one_array(f, static_cast<ValueType>(99), 0); },
       "element type of 'k' at byte 37: found 99, expected a value type from 0 to 12"},
      {"ArrayOfArrays", [](FileBytes &f) { one_array(f, ValueType::kArray, 1).u32(0).u64(0); },
       "element type of 'k' at byte 37: found array, expected a scalar or string type"},
      {"ArrayCountCutOff", [](FileBytes &f) { one_key(f, ValueType::kArray).u32(0).u32(0); },
       "element count of 'k' at byte 41: expected 8 bytes, 4 remain"},
      {"LyingArrayCount", [](FileBytes &f) { one_array(f, ValueType::kUint32, 3).zeros(11); },
       "element count of 'k' at byte 41: found 3 of uint32, expected at most 2 in the 11 bytes left"},
      {"OverflowingArrayCount", [](FileBytes &f) { one_array(f, ValueType::kUint64, uint64_t{1} << 61).zeros(16); },
       "element count of 'k' at byte 41: found 2305843009213693952 of uint64, expected at most 2 in the 16 bytes left"},
      {"LyingStringCount", [](FileBytes &f) { one_array(f, ValueType::kString, 4).zeros(31); },
       "element count of 'k' at byte 41: found 4 of string, expected at most 3 in the 31 bytes left"},
      {"StringElementCutOff", [](FileBytes &f) { one_array(f, ValueType::kString, 2).text("ok").u64(5).u8('x'); },
       "string 1 of 'k' at byte 59: a string of 5 bytes, expected at most the 1 that remain"},
      {"BoolElementOfTwo", [](FileBytes &f) { one_array(f, ValueType::kBool, 3).u8(0).u8(1).u8(2); },
       "element 2 of 'k' at byte 51: found 2, expected a bool, 0 or 1"},
  };
  return cases;
}

// In these files the first tensor's name is at byte 24; with a name of one letter, the dimension count is at 33, the
// extents from 37 on.
const std::vector<BadFile> &tensor_cases() {
  static const std::vector<BadFile> cases = {
      {"TensorsMissing", [](FileBytes &f) { f.header(1, 1).key("k", ValueType::kString).text(std::string(28, 'x')); },
       "tensor name 0 at byte 73: expected 8 bytes, 0 remain"},
      {"NameNotUtf8", [](FileBytes &f) { f.header(1, 0).tensor("\xC3(", {1}, 0, 0).align().zeros(4); },
       "tensor name 0 at byte 24: '\\xc3(' is not UTF-8 from its byte 0 on"},
      {"NameTwice",
       [](FileBytes &f) { f.header(2, 0).tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).align().zeros(64); },
       "tensor name 1 at byte 57: 't' is already at byte 24, expected each name once"},
      {"NoDimensions", [](FileBytes &f) { f.header(1, 0).tensor("t", {}, 0, 0).align().zeros(32); },
       "dimension count of 't' at byte 33: found 0, expected 1 to 4"},
      {"FiveDimensions",
       [](FileBytes &f) {
         f.header(1, 0).tensor("t", {1, 1, 1, 1, 1}, 0, 0).align().zeros(32);
       },
       "dimension count of 't' at byte 33: found 5, expected 1 to 4"},
      {"ZeroExtent",
       [](FileBytes &f) {
         f.header(1, 0).tensor("t", {4, 0}, 0, 0).align().zeros(32);
       },
       "extent 1 of 't' at byte 45: found 0, expected at least 1"},
      {"ExtentsOverflow",
       [](FileBytes &f) {
         f.header(1, 0).tensor("t", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0).align().zeros(32);
       },
       "extent 1 of 't' at byte 45: found 4294967296, expected at most 2147483647 for a tensor of less than 2^63 "
       "weights"},
      {"BytesOverflow", [](FileBytes &f) { f.header(1, 0).tensor("t", {uint64_t{1} << 62}, 0, 0).align().zeros(32); },
       "shape of 't' at byte 33: more than 2^64 bytes of data, expected what a file holds"},
      {"UnknownType99", [](FileBytes &f) { f.header(1, 0).tensor("t", {32}, 99, 0).align().zeros(32); },
       std::string("type of 't' at byte 45: found 99, which is no type that this program knows; ") + kReadable},
      {"UnsupportedType", [](FileBytes &f) { f.header(1, 0).tensor("t", {32}, 16, 0).align().zeros(32); },
       std::string("type of 't' at byte 45: found 16 (IQ2_XXS), which this program does not read; ") + kReadable},
      {"RemovedType", [](FileBytes &f) { f.header(1, 0).tensor("t", {32}, 4, 0).align().zeros(32); },
       std::string("type of 't' at byte 45: found 4 (Q4_2), which was removed from ggml; ") + kReadable},
      {"RemovedRepackedType", [](FileBytes &f) { f.header(1, 0).tensor("t", {32}, 33, 0).align().zeros(32); },
       std::string("type of 't' at byte 45: found 33 (Q4_0_8_8), which was removed from ggml; ") + kReadable},
      {"PartialBlock", [](FileBytes &f) { f.header(1, 0).tensor("t", {100}, 41, 0).align().zeros(32); },
       "shape of 't' at byte 33: rows of 100 weights, expected a multiple of 128 for Q1_0_G128"},
      {"OffsetNotAligned", [](FileBytes &f) { f.header(1, 0).tensor("t", {1}, 0, 4).align().zeros(32); },
       "offset of 't' at byte 49: found 4, expected a multiple of the alignment, 32"},
      {"OffsetHuge", [](FileBytes &f) { f.header(1, 0).tensor("t", {1}, 0, ~uint64_t{31}).align().zeros(64); },
       "offset of 't' at byte 49: found 18446744073709551584, expected less than the 64 bytes of tensor data in the "
       "file"},
      {"OffsetOutside", [](FileBytes &f) { f.header(1, 0).tensor("t", {100}, 41, 64).align().zeros(64); },
       "offset of 't' at byte 49: found 64, expected less than the 64 bytes of tensor data in the file"},
      {"OffsetBehindAHole", [](FileBytes &f) { f.header(1, 0).tensor("t", {1}, 0, 64).align().zeros(64); },
       "offset of 't' at byte 49: found 64, expected less than the 64 bytes of tensor data in the file"},
      {"DataBehindAHole", [](FileBytes &f) { f.header(1, 0).tensor("t", {9}, 0, 64).align().zeros(96); },
       "offset of 't' at byte 49: found 64, from where 36 bytes of data reach past the end; the file has 32"},
      {"DataHuge", [](FileBytes &f) { f.header(1, 0).tensor("t", {(uint64_t{1} << 62) - 1}, 0, 0).align().zeros(35); },
       "offset of 't' at byte 49: found 0, from where 18446744073709551612 bytes of data reach past the end; the file "
       "has 35"},
      {"Overlap", [](FileBytes &f) { f.header(2, 0).tensor("t", {9}, 0, 0).tensor("u", {1}, 0, 32).align().zeros(36); },
       "offset of 'u' at byte 82: found 32, inside the data of tensor 't'; expected 36 or more"},
      {"SameData", [](FileBytes &f) { f.header(2, 0).tensor("t", {1}, 0, 0).tensor("u", {1}, 0, 0).align().zeros(36); },
       "offset of 'u' at byte 82: found 0, inside the data of tensor 't'; expected 4 or more"},
  };
  return cases;
}

// Promise: an incomplete download is told as what it is, and how much of it there is.
const std::vector<BadFile> &short_cases() {
  static const std::vector<BadFile> cases = {
      {"NoData", [](FileBytes &f) { f.header(1, 0).tensor("t", {1}, 0, 0); },
       "data of 't' at byte 64: the file ends early, found 57 bytes, expected at least 68 (an incomplete download?)"},
      {"DataCutOff", [](FileBytes &f) { f.header(1, 0).tensor("t", {9}, 0, 0).align().zeros(35); },
       "data of 't' at byte 64: the file ends early, found 99 bytes, expected at least 100 (an incomplete download?)"},
      {"SeveralTensorsMissing",
       [](FileBytes &f) {
         f.header(3, 0).tensor("t", {9}, 0, 0).tensor("v", {128, 2}, 41, 96).tensor("u", {1}, 0, 64);
         f.align().zeros(36);
       },
       "data of 'v' at byte 256: the file ends early, found 196 bytes, expected at least 292 (an incomplete "
       "download?)"},
      // Of type 42 what the smaller of its meanings takes is missing.
      {"Type42",
       [](FileBytes &f) {
         f.header(1, 0).tensor("t", {128, 40}, 42, 0).align().zeros(1359);
       },
       "data of 't' at byte 96: the file ends early, found 1455 bytes, expected at least 1456 (an incomplete "
       "download?)"},
      {"Type42RowsOf64",
       [](FileBytes &f) {
         f.header(1, 0).tensor("t", {192, 10}, 42, 0).align().zeros(510);
       },
       "data of 't' at byte 96: the file ends early, found 606 bytes, expected at least 636 (an incomplete "
       "download?)"},
  };
  return cases;
}

FileBytes &part_of_model(FileBytes &file, uint8_t index, uint8_t parts) {
  file.header(0, 2).key("split.no", ValueType::kUint8).u8(index);
  return file.key("split.count", ValueType::kUint8).u8(parts);
}

const std::vector<BadFile> &part_cases() {
  static const std::string advice = " of a model (split.count), expected the whole";
  static const std::vector<BadFile> cases = {
      {"First", [](FileBytes &f) { part_of_model(f, 0, 3); }, "part 1 of 3" + advice},
      {"Last", [](FileBytes &f) { part_of_model(f, 2, 3); }, "part 3 of 3" + advice},
      {"Beyond", [](FileBytes &f) { part_of_model(f, 3, 3); },
       "split.no: expected 0 to 2, as split.count is 3, found 3"},
  };
  return cases;
}

class BadFileTest : public testing::TestWithParam<BadFile> {};

TEST_P(BadFileTest, IsRefusedWithOneLine) {
  FileBytes bytes;
  GetParam().build(bytes);
  const auto file = File::parse(bytes.bytes(), "bad.gguf");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "bad.gguf: " + GetParam().message);
}

const auto kName = [](const auto &info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Header, BadFileTest, testing::ValuesIn(header_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Key, BadFileTest, testing::ValuesIn(key_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Value, BadFileTest, testing::ValuesIn(value_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Part, BadFileTest, testing::ValuesIn(part_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Short, BadFileTest, testing::ValuesIn(short_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Tensor, BadFileTest, testing::ValuesIn(tensor_cases()), kName);

TEST(OnlyPart, IsTheWhole) {
  FileBytes bytes;
  EXPECT_TRUE(File::parse(part_of_model(bytes, 0, 1).bytes(), "good.gguf"));
}

}  // namespace
}  // namespace bonsai::gguf
