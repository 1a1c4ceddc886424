// Promises: what is written is read back the same; what fails leaves nothing behind and says why.
#include "core/gguf/writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/gguf/file.h"
#include "tests/gguf/file_bytes.h"

namespace bonsai::gguf {
namespace {

namespace fs = std::filesystem;

class WriterTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::path(testing::TempDir()) / ("gguf-writer-" + std::to_string(::getpid()) + "-" +
                                                 testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path() const { return (directory_ / "out.gguf").string(); }
  size_t files_left() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(directory_), fs::directory_iterator{}));
  }
  Writer writer() const {
    auto writer = Writer::create(path());
    EXPECT_TRUE(writer) << writer.error().message;
    return std::move(*writer);
  }

  fs::path directory_;
};

std::vector<std::byte> pattern(size_t n, int seed) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + static_cast<size_t>(seed));
  return bytes;
}

std::string message_of(const Result<void> &result) { return result ? "success" : result.error().message; }

const uint64_t kVector[] = {128};
const uint64_t kMatrix[] = {256, 3};

TEST_F(WriterTest, RoundTripsMetadataOfEveryType) {
  Writer out = writer();
  const std::string words[] = {"one", "", "th\xC3\xA9"};
  const int32_t ids[] = {-1, 2};
  const float scores[] = {0.5f, -3.0f};
  out.set_uint32("u32", 7);
  out.set_uint64("u64", UINT64_MAX);
  out.set_int32("i32", -7);
  out.set_float32("f32", 1e-6f);
  out.set_bool("bool", true);
  out.set_string("text", "replaced below");
  out.set_strings("words", words);
  out.set_int32s("ids", ids);
  out.set_float32s("scores", scores);
  out.set_string("text", "last wins");
  ASSERT_EQ(message_of(out.finish()), "success");

  const auto file = File::open(path());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->metadata().size(), 9u);
  EXPECT_EQ(file->find("u32")->as_uint(), 7u);
  EXPECT_EQ(file->find("u64")->as_uint(), UINT64_MAX);
  EXPECT_EQ(file->find("i32")->as_int(), -7);
  EXPECT_EQ(file->find("f32")->as_number(), static_cast<double>(1e-6f));
  EXPECT_EQ(file->find("bool")->as_bool(), true);
  EXPECT_EQ(file->find("text")->as_string(), "last wins");
  EXPECT_EQ(file->find("words")->as_array()->strings(), (std::vector<std::string_view>{"one", "", "th\xC3\xA9"}));
  EXPECT_EQ(file->find("ids")->as_array()->integers(), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(file->find("scores")->as_array()->numbers(), (std::vector<double>{0.5, -3}));
}

// Copying a file value by value and tensor by tensor gives the same bytes: nothing is lost in a conversion.
TEST_F(WriterTest, ACopyIsTheSameBytes) {
  const std::vector<std::byte> original = one_of_everything().bytes();
  const auto source = File::parse(original, "source");
  ASSERT_TRUE(source) << source.error().message;
  Writer out = writer();
  for (const auto &[key, value] : source->metadata()) out.set_value(key, value);
  for (const Tensor &tensor : source->tensors()) {
    ASSERT_EQ(message_of(out.add_tensor(tensor.name, tensor.shape, tensor.format)), "success");
  }
  ASSERT_EQ(message_of(out.begin_data()), "success");
  for (const Tensor &tensor : source->tensors()) ASSERT_EQ(message_of(out.write(tensor.data)), "success");
  ASSERT_EQ(message_of(out.finish()), "success");

  const auto copy = MappedFile::open(path());
  ASSERT_TRUE(copy) << copy.error().message;
  ASSERT_GE(copy->bytes().size(), original.size());
  EXPECT_EQ(std::memcmp(copy->bytes().data(), original.data(), original.size()), 0);
  EXPECT_EQ(copy->bytes().size(), (original.size() + 63) / 64 * 64);  // the writer pads the last tensor too
}

// Tensors of all formats, their bytes in pieces of awkward sizes that span tensors.
TEST_F(WriterTest, DataMayComeInPiecesOfAnySize) {
  std::vector<std::byte> all;
  Writer out = writer();
  for (const quant::FormatTraits &format : quant::formats()) {
    ASSERT_EQ(message_of(out.add_tensor(format.name, kMatrix, format.format)), "success");
    const auto data = pattern(3 * quant::row_bytes(format, 256), static_cast<int>(format.format));
    all.insert(all.end(), data.begin(), data.end());
  }
  ASSERT_EQ(message_of(out.begin_data()), "success");
  for (size_t at = 0, piece = 1; at < all.size(); at += piece, piece = piece * 5 % 997 + 1) {
    piece = std::min(piece, all.size() - at);
    ASSERT_EQ(message_of(out.write(std::span(all).subspan(at, piece))), "success");
  }
  ASSERT_EQ(message_of(out.finish()), "success");

  const auto file = File::open(path());
  ASSERT_TRUE(file) << file.error().message;
  for (const quant::FormatTraits &format : quant::formats()) {
    const Tensor *tensor = file->find_tensor(format.name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->format, format.format);
    EXPECT_EQ(tensor->gguf_type, format.gguf_type);
    const auto expected = pattern(3 * quant::row_bytes(format, 256), static_cast<int>(format.format));
    EXPECT_TRUE(std::equal(tensor->data.begin(), tensor->data.end(), expected.begin(), expected.end())) << format.name;
  }
}

TEST_F(WriterTest, LargePiecesAreWrittenWhole) {
  const uint64_t shape[] = {1024, 700};
  const auto data = pattern(1024 * 700 * 4, 1);
  Writer out = writer();
  ASSERT_EQ(message_of(out.add_tensor("t", shape, quant::Format::kF32)), "success");
  ASSERT_EQ(message_of(out.begin_data()), "success");
  ASSERT_EQ(message_of(out.write(std::span(data).first(100))), "success");
  ASSERT_EQ(message_of(out.write(std::span(data).subspan(100))), "success");
  ASSERT_EQ(message_of(out.finish()), "success");
  const auto file = File::open(path());
  ASSERT_TRUE(file) << file.error().message;
  const auto read = file->tensors()[0].data;
  EXPECT_TRUE(std::equal(read.begin(), read.end(), data.begin(), data.end()));
}

TEST_F(WriterTest, HonoursTheAlignmentKey) {
  Writer out = writer();
  out.set_uint32("general.alignment", 4096);
  ASSERT_EQ(message_of(out.add_tensor("a", kVector, quant::Format::kF32)), "success");
  ASSERT_EQ(message_of(out.add_tensor("b", kVector, quant::Format::kF32)), "success");
  ASSERT_EQ(message_of(out.begin_data()), "success");
  ASSERT_EQ(message_of(out.write(pattern(1024, 0))), "success");
  ASSERT_EQ(message_of(out.finish()), "success");
  const auto file = File::open(path());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->alignment(), 4096u);
  EXPECT_EQ(file->find_tensor("b")->offset, 4096u);
}

// A reader never sees half a file: the name appears when all is there, and an older file stays until then.
TEST_F(WriterTest, AnAbandonedFileLeavesWhatWasThere) {
  std::ofstream(path()) << "older";
  {
    Writer out = writer();
    ASSERT_EQ(message_of(out.add_tensor("t", kVector, quant::Format::kF32)), "success");
    ASSERT_EQ(message_of(out.begin_data()), "success");
    EXPECT_TRUE(fs::exists(path() + ".part-" + std::to_string(::getpid())));
  }
  EXPECT_EQ(files_left(), 1u);
  EXPECT_EQ(fs::file_size(path()), 5u);
}

TEST_F(WriterTest, AMovedWriterWritesOneFile) {
  Writer first = writer();
  first.set_uint32("k", 1);
  Writer second = std::move(first);
  ASSERT_EQ(message_of(second.finish()), "success");
  EXPECT_EQ(files_left(), 1u);
}

TEST_F(WriterTest, RefusesTensorsThatNoReaderWouldTake) {
  Writer out = writer();
  const std::string where = path() + ": tensor 't': ";
  const auto add = [&](std::vector<uint64_t> shape, quant::Format format = quant::Format::kF32) {
    return message_of(out.add_tensor("t", shape, format));
  };
  EXPECT_EQ(add({}), where + "0 dimensions, expected 1 to 4");
  EXPECT_EQ(add({1, 1, 1, 1, 1}), where + "5 dimensions, expected 1 to 4");
  EXPECT_EQ(add({4, 0}), where + "an extent is 0, expected at least 1");
  EXPECT_EQ(add({uint64_t{1} << 40, uint64_t{1} << 40}), where + "expected at most 72057594037927936 weights");
  EXPECT_EQ(add({100}, quant::Format::kQ1_0_G128),
            where + "rows of 100 weights, expected a multiple of 128 for Q1_0_G128");
  EXPECT_EQ(add({128}), "success");
  EXPECT_EQ(add({128}), where + "added twice");
  EXPECT_EQ(message_of(out.add_tensor("\xFF", kVector, quant::Format::kF32)),
            path() + ": tensor '\\xff': expected a name of at most 65535 bytes of UTF-8");
}

TEST_F(WriterTest, RefusesKeysThatNoReaderWouldTake) {
  Writer bad_key = writer();
  bad_key.set_uint32("\xFF", 1);
  EXPECT_EQ(message_of(bad_key.begin_data()), path() + ": metadata key '\\xff': expected at most 65535 bytes of UTF-8");
}

TEST_F(WriterTest, RefusesAnAlignmentThatIsNone) {
  Writer out = writer();
  out.set_uint32("general.alignment", 33);
  EXPECT_EQ(message_of(out.begin_data()), path() + ": general.alignment: expected a uint32 that is a power of two");
}

TEST_F(WriterTest, RefusesStepsOutOfOrder) {
  Writer out = writer();
  const auto data = pattern(512, 0);
  EXPECT_EQ(message_of(out.write(data)), path() + ": data before the header");
  ASSERT_EQ(message_of(out.add_tensor("t", kVector, quant::Format::kF32)), "success");
  ASSERT_EQ(message_of(out.begin_data()), "success");
  EXPECT_EQ(message_of(out.begin_data()), path() + ": the header is written already");
  EXPECT_EQ(message_of(out.add_tensor("u", kVector, quant::Format::kF32)),
            path() + ": tensor 'u': added after the header was written");
  out.set_bool("late", true);
  ASSERT_EQ(message_of(out.write(data)), "success");
  EXPECT_EQ(message_of(out.finish()), path() + ": 'late' set after the header was written");
}

TEST_F(WriterTest, RefusesTooFewAndTooManyBytes) {
  Writer out = writer();
  const auto data = pattern(513, 0);
  ASSERT_EQ(message_of(out.add_tensor("t", kVector, quant::Format::kF32)), "success");
  ASSERT_EQ(message_of(out.begin_data()), "success");
  ASSERT_EQ(message_of(out.write(std::span(data).first(500))), "success");
  EXPECT_EQ(message_of(out.finish()), path() + ": tensor 't': got 500 bytes, expected 512");
  EXPECT_EQ(message_of(out.write(std::span(data).subspan(500))), path() + ": 1 bytes more than the tensors have");
}

TEST_F(WriterTest, SaysWhyItCannotCreate) {
  const auto in_nowhere = Writer::create("/nonexistent/out.gguf");
  ASSERT_FALSE(in_nowhere);
  EXPECT_EQ(in_nowhere.error().message,
            "/nonexistent/out.gguf: cannot create a file in /nonexistent: No such file or directory");
  // Renaming over a device would replace it.
  const auto over_device = Writer::create("/dev/null");
  ASSERT_FALSE(over_device);
  EXPECT_EQ(over_device.error().message, "/dev/null: is not a regular file, expected one or a new name");
  const auto over_directory = Writer::create(directory_.string());
  ASSERT_FALSE(over_directory);
}

// Writes 64 KiB with files limited to 32 KiB, as a disk that fills up would; returns what finish() says.
std::string write_beyond_the_limit(const std::string &path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{32768, 32768};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  auto out = Writer::create(path);
  const uint64_t shape[] = {16384};
  if (!out || !out->add_tensor("t", shape, quant::Format::kF32) || !out->begin_data()) return "no writer";
  if (!out->write(pattern(65536, 0))) return "the buffer should have held it";
  return message_of(out->finish());
}

TEST_F(WriterTest, AFullDiskIsReportedAndLeavesNothing) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(write_beyond_the_limit(path()) == path() + ": cannot write: File too large" ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(files_left(), 0u);
}

// Behind a header of any length, as those of real vocabularies are.
TEST_F(WriterTest, ShowsTheFileAheadOfItsData) {
  for (const size_t n_texts : {size_t{1}, size_t{60'000}}) {
    const std::vector<std::string> texts(n_texts, "eighteen characters");
    const uint64_t shape[] = {8, 3};
    const std::vector<std::byte> data = pattern(96, 1);
    Writer out = writer();
    out.set_strings("texts", texts);
    ASSERT_TRUE(out.add_tensor("t", shape, quant::Format::kF32));
    EXPECT_FALSE(out.preview([](auto) { return Result<void>(); })) << "there is no header yet";
    ASSERT_TRUE(out.begin_data());
    const auto shown = out.preview([&](Result<std::unique_ptr<File>> file) -> Result<void> {
      if (!file) return tl::unexpected(file.error());
      EXPECT_EQ((*file)->path(), path());
      EXPECT_EQ((*file)->find("texts")->as_array()->count, n_texts);
      const auto bytes = (*file)->find_tensor("t")->data;
      EXPECT_EQ(bytes.size(), 96u);
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
      return fail("seen");
    });
    ASSERT_FALSE(shown);
    EXPECT_EQ(shown.error().message, "seen");
    ASSERT_TRUE(out.write(data));
    EXPECT_FALSE(out.preview([](auto) { return Result<void>(); })) << "there is data";
    ASSERT_TRUE(out.finish());
    const auto file = File::open(path());
    ASSERT_TRUE(file) << file.error().message;
    const auto bytes = file->find_tensor("t")->data;
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), data.begin(), data.end()));
  }
}

}  // namespace
}  // namespace bonsai::gguf
