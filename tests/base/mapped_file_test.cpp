#include "core/base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace bonsai {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::path(testing::TempDir()) / ("mapped-file-" + std::to_string(::getpid()) + "-" +
                                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const char *name) const { return (directory_ / name).string(); }
  std::string write(const char *name, const std::string &content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  std::filesystem::path directory_;
};

std::string_view text_of(const MappedFile &file) {
  return {reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size()};
}

// Promise: the bytes are the file's, and the mapping needs neither the descriptor nor the name.
TEST_F(MappedFileTest, ShowsTheBytesAlsoAfterTheFileIsRemoved) {
  const std::string name = write("a", "seven\nlines");
  const auto file = MappedFile::open(name);
  ASSERT_TRUE(file) << file.error().message;
  std::filesystem::remove(name);
  EXPECT_EQ(text_of(*file), "seven\nlines");
  EXPECT_EQ(file->path(), name);
}

TEST_F(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  const auto file = MappedFile::open(write("empty", ""));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->bytes().empty());
}

// Promise: views stay valid when the owner moves; what a moved-to owner had before is unmapped.
TEST_F(MappedFileTest, MovingKeepsTheAddresses) {
  auto first = MappedFile::open(write("a", "first"));
  auto second = MappedFile::open(write("b", "second"));
  ASSERT_TRUE(first && second);
  const auto *address = first->bytes().data();
  MappedFile moved = std::move(*first);
  EXPECT_EQ(moved.bytes().data(), address);
  EXPECT_TRUE(first->bytes().empty());
  *second = std::move(moved);
  EXPECT_EQ(second->bytes().data(), address);
  EXPECT_EQ(text_of(*second), "first");
  EXPECT_EQ(second->path(), path("a"));
}

// Promise: release() is about memory only; what is released reads the same afterwards, whatever the range.
TEST_F(MappedFileTest, ReleasedPagesStayReadable) {
  std::string content(5 * 4096 + 100, 'x');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>('a' + i % 26);
  const auto file = MappedFile::open(write("pages", content));
  ASSERT_TRUE(file) << file.error().message;
  file->release(file->bytes());
  file->release(file->bytes().subspan(10, 20));
  file->release(file->bytes().subspan(4000, 9000));
  file->release({});
  EXPECT_EQ(text_of(*file), content);
}

// The reader of a file may hold a copy of a part, and pass it where the part would go.
TEST_F(MappedFileTest, ReleasingOtherMemoryChangesNothing) {
  const auto file = MappedFile::open(write("f", std::string(100000, 'x')));
  ASSERT_TRUE(file);
  const std::vector<std::byte> copy(1 << 20, std::byte{'y'});
  file->release(copy);
  EXPECT_EQ(copy, std::vector<std::byte>(1 << 20, std::byte{'y'}));
}

TEST_F(MappedFileTest, RefusesWhatIsNotAReadableFile) {
  const auto message = [](const std::string &path) {
    const auto file = MappedFile::open(path);
    return file ? std::string("opened") : file.error().message;
  };
  EXPECT_EQ(message(path("absent")), path("absent") + ": cannot open: No such file or directory");
  EXPECT_EQ(message(directory_.string()), directory_.string() + ": is a directory, expected a file");
  EXPECT_EQ(message("/dev/null"), "/dev/null: cannot be mapped, expected a regular file");
  EXPECT_EQ(message(""), "expected the name of a file to read, found an empty one");
  const std::string cut = write("cut", "another");
  EXPECT_EQ(message(cut + std::string("\0.gguf", 6)),
            cut + "\\x00.gguf: expected the name of a file to read, found one with a NUL byte");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(message(path("fifo")), path("fifo") + ": cannot be mapped, expected a regular file");
}

TEST_F(MappedFileTest, RefusesAnUnreadableFile) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads every file";
  const std::string name = write("secret", "x");
  ASSERT_EQ(::chmod(name.c_str(), 0), 0);
  const auto file = MappedFile::open(name);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, name + ": cannot open: Permission denied");
}

}  // namespace
}  // namespace bonsai
