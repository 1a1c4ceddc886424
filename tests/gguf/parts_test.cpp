// Promise: a model in several files is read as if it were one, and parts that do not belong together are refused with
// one line that names the part.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/gguf/parts.h"
#include "core/gguf/validate.h"
#include "tests/gguf/file_bytes.h"
#include "tests/gguf/split_file.h"

namespace bonsai::gguf {
namespace {

namespace fs = std::filesystem;

class Parts : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / fmt::format("gguf-parts-{}", ::getpid());
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string prefix() const { return (directory_ / "model").string(); }
  std::string path(int part, int parts) const { return fmt::format("{}-{:05}-of-{:05}.gguf", prefix(), part, parts); }

  void write(const std::string &path, const FileBytes &bytes) const {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char *>(bytes.bytes().data()), static_cast<std::streamsize>(bytes.size()));
  }

  // What is wrong with the model of which `path` is the first part, without the directory's name.
  std::string refusal(const std::string &path) const {
    const auto file = File::open(path);
    if (file) return "";
    std::string message = file.error().message;
    const std::string directory = directory_.string() + "/";
    for (size_t at; (at = message.find(directory)) != std::string::npos;) message.erase(at, directory.size());
    return message;
  }

  fs::path directory_;
};

// Part `index`, from 0, of two, with one tensor of four floats.
FileBytes part_of_two(uint8_t index, std::string_view tensor, uint8_t tensors = 2) {
  FileBytes bytes;
  bytes.header(1, 3).key("split.no", ValueType::kUint8).u8(index).key("split.count", ValueType::kUint8).u8(2);
  bytes.key("split.tensors.count", ValueType::kUint8).u8(tensors);
  bytes.tensor(tensor, {4}, 0, 0).align();
  for (int i = 0; i < 4; ++i) bytes.number(static_cast<float>(10 * index + i));
  return bytes;
}

TEST_F(Parts, HavePathsThatFollowFromTheFirst) {
  EXPECT_EQ(paths_of_parts(path(1, 3)), (std::vector{path(1, 3), path(2, 3), path(3, 3)}));
  for (const std::string &alone :
       {std::string("model.gguf"), path(2, 3), prefix() + "-00001-of-0000x.gguf", prefix() + "-00001-of-00000.gguf",
        std::string("-of-00002.gguf"), std::string("00002.gguf"), std::string()})
    EXPECT_EQ(paths_of_parts(alone), std::vector{alone});
}

TEST_F(Parts, AreReadAsOneFile) {
  const FileBytes whole_bytes = one_of_everything();
  const auto whole = File::parse(whole_bytes.bytes(), "whole");
  ASSERT_TRUE(whole) << whole.error().message;
  for (const size_t parts : {2, 3, 6}) {  // of six parts, the last two have no tensors
    const auto paths = test::split_file(*whole, prefix(), parts);
    auto opened = File::open(paths[0]);
    ASSERT_TRUE(opened) << opened.error().message;
    const File file = *std::move(opened);
    EXPECT_EQ(file.parts(), parts);
    EXPECT_TRUE(file.is_mapped());
    uint64_t bytes = 0;
    for (const std::string &path : paths) bytes += fs::file_size(path);
    EXPECT_EQ(file.file_bytes(), bytes);
    EXPECT_EQ(file.find("text")->as_string(), "a \"word\"\n");
    EXPECT_EQ(file.find("numbers")->as_array()->integers(), (std::vector<int64_t>{-1, 0, 7}));
    ASSERT_EQ(file.tensors().size(), whole->tensors().size());
    EXPECT_TRUE(validate(file).usable());  // which gives pages back
    for (size_t i = 0; i < file.tensors().size(); ++i) {
      const Tensor &expected = whole->tensors()[i];
      EXPECT_EQ(file.tensors()[i].name, expected.name);
      const Tensor *tensor = file.find_tensor(expected.name);
      ASSERT_EQ(tensor, &file.tensors()[i]);
      EXPECT_EQ(tensor->shape, expected.shape);
      EXPECT_EQ(tensor->format, expected.format);
      ASSERT_EQ(tensor->data.size(), expected.data.size());
      EXPECT_EQ(std::memcmp(tensor->data.data(), expected.data.data(), expected.data.size()), 0) << expected.name;
    }
  }
}

// Only the first part says that scales come last.
TEST_F(Parts, ShareTheOrderOfScales) {
  const auto part = [](uint8_t index) {
    FileBytes bytes;
    bytes.header(index, index == 0 ? 3 : 2);
    if (index == 0) bytes.key("general.quantization_version", ValueType::kString).text("TQ2_0_G128");
    bytes.key("split.no", ValueType::kUint8).u8(index).key("split.count", ValueType::kUint8).u8(2);
    if (index == 1) {
      bytes.tensor("w", {128}, 142, 0).align();
      for (uint8_t i = 0; i < 34; ++i) bytes.u8(i);
    }
    return bytes;
  };
  write(path(1, 2), part(0));
  write(path(2, 2), part(1));
  const auto file = File::open(path(1, 2));
  ASSERT_TRUE(file) << file.error().message;
  const auto data = file->find_tensor("w")->data;
  EXPECT_EQ(std::to_integer<int>(data[0]), 32);
  EXPECT_EQ(std::to_integer<int>(data[1]), 33);
  EXPECT_EQ(std::to_integer<int>(data[2]), 0);
  EXPECT_EQ(std::to_integer<int>(data[33]), 31);
}

TEST_F(Parts, AllAreNeeded) {
  write(path(1, 2), part_of_two(0, "a"));
  EXPECT_EQ(refusal(path(1, 2)),
            "model-00002-of-00002.gguf: cannot open: No such file or directory (part 2 of 2 of the model)");
  write(path(2, 2), part_of_two(1, "b"));
  EXPECT_EQ(refusal(path(1, 2)), "");
  fs::resize_file(path(2, 2), 150);
  const std::string cut = refusal(path(1, 2));
  EXPECT_TRUE(cut.starts_with("model-00002-of-00002.gguf: data of 'b' at byte")) << cut;
  EXPECT_TRUE(cut.ends_with(" (part 2 of 2 of the model)")) << cut;
}

TEST_F(Parts, TheFirstIsOpenedUnderItsName) {
  write(path(1, 2), part_of_two(0, "a"));
  write(path(2, 2), part_of_two(1, "b"));
  EXPECT_EQ(refusal(path(2, 2)),
            "model-00002-of-00002.gguf: part 2 of 2 of a model (split.no), expected the first, beside which the others "
            "are");
  fs::rename(path(1, 2), directory_ / "renamed.gguf");
  EXPECT_EQ(refusal((directory_ / "renamed.gguf").string()),
            "renamed.gguf: part 1 of 2 of a model (split.count), expected a name that ends in -00001-of-00002.gguf, "
            "beside which the other parts are");
}

TEST_F(Parts, OthersAreNotTaken) {
  write(path(1, 2), part_of_two(0, "a"));
  write(path(2, 2), part_of_two(0, "b"));
  EXPECT_EQ(refusal(path(1, 2)), "model-00002-of-00002.gguf: part 1 of 2, expected part 2 of 2");
  write(path(2, 2), one_of_everything());
  EXPECT_EQ(refusal(path(1, 2)), "model-00002-of-00002.gguf: a whole model, expected part 2 of 2");
  write(path(2, 2), part_of_two(1, "a"));
  EXPECT_EQ(refusal(path(1, 2)),
            "model-00001-of-00002.gguf: tensor 'a' is in two of the 2 parts, expected each name once");
  write(path(1, 2), part_of_two(0, "a", 3));
  write(path(2, 2), part_of_two(1, "b", 3));
  EXPECT_EQ(refusal(path(1, 2)),
            "model-00001-of-00002.gguf: split.tensors.count is 3, expected 2, which the 2 parts have");
}

// llama.cpp's later parts have nothing but their own keys. One that says otherwise may be another model's.
TEST_F(Parts, SayTheSameWhereSeveralSayIt) {
  const auto add_keys = [](FileBytes &bytes, std::string_view architecture, uint32_t blocks, uint8_t last, float base) {
    bytes.key("general.architecture", ValueType::kString).text(architecture);
    bytes.key("m.block_count", ValueType::kUint32).number(blocks);
    bytes.array("m.list", ValueType::kUint8, 2).u8(1).u8(last);
    return bytes.key("m.base", ValueType::kFloat32).number(base);
  };
  const auto write_second = [&](std::string_view architecture, uint32_t blocks, uint8_t last, float base) {
    for (const uint8_t index : {0, 1}) {
      FileBytes bytes;
      bytes.header(0, 7).key("split.no", ValueType::kUint8).u8(index).key("split.count", ValueType::kUint8).u8(2);
      bytes.key(index == 0 ? "only.first" : "only.second", ValueType::kUint8).u8(index);
      index == 0 ? add_keys(bytes, "m", 4, 2, 0.5f) : add_keys(bytes, architecture, blocks, last, base);
      write(path(index + 1, 2), bytes.align());
    }
  };
  const auto said = [&] { return refusal(path(1, 2)); };
  const std::string part = "model-00002-of-00002.gguf: ", first = ", as model-00001-of-00002.gguf has it, found ";
  write_second("m", 4, 2, 0.5f);
  EXPECT_EQ(said(), "");
  write_second("llama", 4, 2, 0.5f);
  EXPECT_EQ(said(), part + "general.architecture: expected \"m\"" + first + "\"llama\"");
  write_second("m", 99, 2, 0.5f);
  EXPECT_EQ(said(), part + "m.block_count: expected 4" + first + "99");
  write_second("m", 4, 3, 0.5f);
  EXPECT_EQ(said(), part + "m.list: expected an array of 2 elements" + first + "another value");
  write_second("m", 4, 2, 0.25f);
  EXPECT_EQ(said(), part + "m.base: expected 0.5" + first + "0.25");
}

TEST_F(Parts, SayTheTypesOfWhatLooksAlike) {
  const auto said = [&](const auto &add_first, const auto &add_second) {
    for (const uint8_t index : {0, 1}) {
      FileBytes bytes;
      bytes.header(0, 3).key("split.no", ValueType::kUint8).u8(index).key("split.count", ValueType::kUint8).u8(2);
      index == 0 ? add_first(bytes) : add_second(bytes);
      write(path(index + 1, 2), bytes.align());
    }
    return refusal(path(1, 2));
  };
  const std::string part = "model-00002-of-00002.gguf: m.x: expected ",
                    first = ", as model-00001-of-00002.gguf has it, found ";
  EXPECT_EQ(said([](FileBytes &bytes) { bytes.key("m.x", ValueType::kFloat32).number(0.5f); },
                 [](FileBytes &bytes) { bytes.key("m.x", ValueType::kFloat64).number(0.5); }),
            part + "0.5 (float32)" + first + "0.5 (float64)");
  EXPECT_EQ(said([](FileBytes &bytes) { bytes.array("m.x", ValueType::kUint8, 1).u8(1); },
                 [](FileBytes &bytes) { bytes.array("m.x", ValueType::kBool, 1).u8(1); }),
            part + "an array of 1 elements (of uint8)" + first + "an array of 1 elements (of bool)");
}

TEST_F(Parts, MaySayTheSameWholeNumberInAnotherType) {
  const auto write_second = [&](ValueType type, auto number, ValueType other_type, auto other) {
    for (const uint8_t index : {0, 1}) {
      FileBytes bytes;
      bytes.header(0, 4).key("split.no", ValueType::kUint8).u8(index).key("split.count", ValueType::kUint8).u8(2);
      bytes.key("general.alignment", ValueType::kUint32).number<uint32_t>(index == 0 ? 32 : 64);
      bytes.key("m.n", index == 0 ? type : other_type);
      index == 0 ? bytes.number(number) : bytes.number(other);
      write(path(index + 1, 2), bytes.align(64));
    }
    return refusal(path(1, 2));
  };
  EXPECT_EQ(write_second(ValueType::kUint32, uint32_t{7}, ValueType::kInt64, int64_t{7}), "");
  EXPECT_EQ(write_second(ValueType::kInt8, int8_t{-7}, ValueType::kInt64, int64_t{-7}), "");
  EXPECT_NE(write_second(ValueType::kUint32, uint32_t{7}, ValueType::kInt64, int64_t{-7}), "");
  EXPECT_NE(write_second(ValueType::kUint64, ~uint64_t{0}, ValueType::kInt64, int64_t{-1}), "");
  EXPECT_NE(write_second(ValueType::kUint32, uint32_t{1}, ValueType::kFloat32, 1.0f), "");
  EXPECT_NE(write_second(ValueType::kUint32, uint32_t{1}, ValueType::kBool, uint8_t{1}), "");
}

// Promise: a part is never taken for a whole model.
TEST_F(Parts, SayWhichTheyAreInWholeNumbers) {
  const auto refusal_with = [&](std::string_view key, ValueType type, const auto &append) {
    FileBytes bytes;
    append(bytes.header(0, 1).key(key, type));
    bytes.align();
    write(path(1, 2), bytes);
    const std::string message = refusal(path(1, 2));
    const auto parsed = File::parse(bytes.bytes(), "model-00001-of-00002.gguf");
    EXPECT_EQ(parsed ? "" : parsed.error().message, message);
    return message;
  };
  const auto two = [](FileBytes &bytes) { bytes.text("2"); };
  const auto expected = [](std::string_view key, std::string_view found) {
    return fmt::format("model-00001-of-00002.gguf: {}: expected a whole number from 0 on, found {}", key, found);
  };
  for (const std::string_view key : {"split.count", "split.no", "split.tensors.count"})
    EXPECT_EQ(refusal_with(key, ValueType::kString, two), expected(key, "\"2\" (string)"));
  EXPECT_EQ(refusal_with("split.count", ValueType::kFloat32, [](FileBytes &bytes) { bytes.number(2.0f); }),
            expected("split.count", "2 (float32)"));
  EXPECT_EQ(refusal_with("split.count", ValueType::kInt16, [](FileBytes &bytes) { bytes.number<int16_t>(-2); }),
            expected("split.count", "-2 (int16)"));
  EXPECT_EQ(refusal_with("split.no", ValueType::kBool, [](FileBytes &bytes) { bytes.u8(1); }),
            expected("split.no", "true (bool)"));
  EXPECT_EQ(refusal_with("split.count", ValueType::kInt32, [](FileBytes &bytes) { bytes.number<int32_t>(1); }), "");
}

// Nor is a later part taken without its number.
TEST_F(Parts, OthersSayWhichTheyAreInWholeNumbersToo) {
  write(path(1, 2), part_of_two(0, "a"));
  FileBytes bytes;
  write(path(2, 2), bytes.header(0, 1).key("split.no", ValueType::kString).text("1").align());
  EXPECT_EQ(refusal(path(1, 2)),
            "model-00002-of-00002.gguf: split.no: expected a whole number from 0 on, found \"1\" (string)");
}

// Type 42 is one of two formats, by what the extents allow (type42_test.cpp): not one in each part.
class PartsOfType42 : public Parts {
 protected:
  // Two parts with a tensor of type 42 each, 'a' and 'b'.
  struct Extent {
    uint64_t columns, rows;
    size_t bytes;
  };
  static constexpr Extent kSmall = {256, 1, 96};  // fits both
  static constexpr Extent kG64 = {128, 20, 20 * 36}, kG128 = {128, 20, 20 * 34};

  void write_two(Extent a, Extent b) const {
    for (const uint8_t index : {0, 1}) {
      const auto [columns, rows, data] = index == 0 ? a : b;
      FileBytes bytes;
      bytes.header(1, 2).key("split.no", ValueType::kUint8).u8(index).key("split.count", ValueType::kUint8).u8(2);
      bytes.tensor(index == 0 ? "a" : "b", {columns, rows}, 42, 0).align().zeros(data);
      write(path(index + 1, 2), bytes);
    }
  }
};

TEST_F(PartsOfType42, HaveOneMeaning) {
  write_two(kG64, kG128);
  EXPECT_EQ(
      refusal(path(1, 2)),
      "model-00002-of-00002.gguf: tensors of type 42 are TQ2_0_G128, those of the parts before Q2_0_G64; expected "
      "one meaning");
}

TEST_F(PartsOfType42, FollowTheOneThatDecides) {
  using quant::Format;
  struct Case {
    Extent a, b;
    Format format;
    size_t small_bytes;
  };
  const Case cases[] = {{kSmall, kG128, Format::kTQ2_0_G128, 68},
                        {kG128, kSmall, Format::kTQ2_0_G128, 68},
                        {kSmall, kG64, Format::kQ2_0_G64, 72},
                        {kG64, kSmall, Format::kQ2_0_G64, 72}};
  for (const Case &c : cases) {
    write_two(c.a, c.b);
    const auto file = File::open(path(1, 2));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_TRUE(file->warnings().empty());
    for (const Tensor &tensor : file->tensors()) EXPECT_EQ(tensor.format, c.format);
    const Tensor &small = file->tensors()[c.a.rows == 1 ? 0 : 1];
    EXPECT_EQ(small.data.size(), c.small_bytes);
  }
}

TEST_F(PartsOfType42, WarnOnceWhereNoneDecides) {
  write_two(kSmall, kSmall);
  const auto file = File::open(path(1, 2));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->warnings(), std::vector<std::string>{
                                  "type 42 means Q2_0 or PQ2_0 and no tensor is large enough to tell; read as Q2_0"});
}

}  // namespace
}  // namespace bonsai::gguf
