// Promises: a file is replaced whole or not at all, and nothing else is touched or left.
#include "core/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

// The permissions of the last file whose owner was to change, as they were before that.
std::optional<mode_t> permissions_before_change_of_owner;
bool refuse_changes_of_owner = false;

}  // namespace

// In place of the C library's: a test sees a file between two calls, and systems that give nothing away.
extern "C" int fchown(int fd, uid_t owner, gid_t group) noexcept {
  struct stat status {};
  if (::fstat(fd, &status) == 0) permissions_before_change_of_owner = status.st_mode & 07777;
  if (!refuse_changes_of_owner) return static_cast<int>(::syscall(SYS_fchown, fd, owner, group));
  errno = EPERM;
  return -1;
}

namespace bonsai {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::path(testing::TempDir()) / ("atomic-file-" + std::to_string(::getpid()) + "-" +
                                                 testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(directory_);
    mask_ = ::umask(022);
  }
  void TearDown() override {
    refuse_changes_of_owner = false;
    ::umask(mask_);
    fs::remove_all(directory_);
  }

  std::string path(const std::string &name) const { return (directory_ / name).string(); }
  std::string put(const std::string &name, const std::string &content, mode_t mode = 0644) const {
    std::ofstream(path(name), std::ios::binary) << content;
    ::chmod(path(name).c_str(), mode);
    return path(name);
  }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto &entry : fs::directory_iterator(directory_)) names.insert(entry.path().filename());
    return names;
  }

  fs::path directory_;
  mode_t mask_ = 0;
};

using Names = std::set<std::string>;

std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

mode_t permissions(const std::string &path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string message_of(const Result<void> &result) { return result ? "success" : result.error().message; }

TEST_F(AtomicFileTest, ReplacesWhatWasThereAndLeavesNothingElse) {
  for (const char *content : {"longer than the second", "second", ""}) {
    ASSERT_EQ(message_of(write_whole_file(path("a"), content)), "success");
    EXPECT_EQ(read(path("a")), content);
  }
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(AtomicFileTest, IsSeenOnlyWhenItIsWhole) {
  const std::string name = put("a", "old");
  {
    auto file = AtomicFile::create(name);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE(file->write(bytes("ne")));
    EXPECT_EQ(read(name), "old");
    EXPECT_EQ(names(), (Names{"a", "a.part-" + std::to_string(::getpid())}));
    ASSERT_TRUE(file->write(bytes("w")));
    ASSERT_EQ(message_of(file->commit()), "success");
    EXPECT_EQ(read(name), "new");
  }
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(AtomicFileTest, WhatIsNotCommittedLeavesTheOldFile) {
  const std::string name = put("a", "old");
  {
    auto file = AtomicFile::create(name);
    ASSERT_TRUE(file && file->write(bytes("new")));
  }
  EXPECT_EQ(read(name), "old");
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(AtomicFileTest, MovingWritesOneFile) {
  auto first = AtomicFile::create(path("a")), second = AtomicFile::create(path("b"));
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(first->write(bytes("one ")));
  AtomicFile moved = *std::move(first);
  *second = std::move(moved);  // what was being written to b is given up
  ASSERT_TRUE(second->write(bytes("file")));
  ASSERT_EQ(message_of(second->commit()), "success");
  EXPECT_EQ(names(), Names{"a"});
  EXPECT_EQ(read(path("a")), "one file");
}

// Promise: the names of our own temporary files keep nobody from writing, neither another thread's nor one that was
// left by a process of the same number.
TEST_F(AtomicFileTest, TheSameFileMayBeWrittenTwiceAtOnce) {
  const std::string left = put("a.part-" + std::to_string(::getpid()), "left");
  auto first = AtomicFile::create(path("a")), second = AtomicFile::create(path("a"));
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(first->write(bytes("first")) && second->write(bytes("second")));
  ASSERT_EQ(message_of(first->commit()), "success");
  ASSERT_EQ(message_of(second->commit()), "success");
  EXPECT_EQ(read(path("a")), "second");
  EXPECT_EQ(read(left), "left");
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(AtomicFileTest, TheLongestNameIsOne) {
  const std::string name(255, 'n');
  EXPECT_EQ(message_of(write_whole_file(path(name), "x")), "success");
  EXPECT_EQ(names(), Names{name});
}

TEST_F(AtomicFileTest, PermissionsAreKeptOrAsAsked) {
  const auto write = [](const std::string &name, AtomicFile::Access access) {
    auto file = AtomicFile::create(name, access);
    ASSERT_TRUE(file && file->write(bytes("new")));
    ASSERT_EQ(message_of(file->commit()), "success");
  };
  for (const mode_t mode : {0600, 0664, 0444, 0755}) {
    const std::string name = put("old", "old", mode);
    write(name, AtomicFile::Access::kOwnerOnly);
    EXPECT_EQ(read(name), "new");
    EXPECT_EQ(permissions(name), mode);
    fs::remove(name);
  }
  write(path("private"), AtomicFile::Access::kOwnerOnly);
  EXPECT_EQ(permissions(path("private")), 0600u);
  write(path("usual"), AtomicFile::Access::kByUmask);
  EXPECT_EQ(permissions(path("usual")), 0644u);
}

// Promise: not even for a moment may somebody open what will be private.
TEST_F(AtomicFileTest, TheTemporaryFileHasNoMorePermissions) {
  put("a", "old", 0600);
  const auto file = AtomicFile::create(path("a"));
  ASSERT_TRUE(file);
  EXPECT_EQ(permissions(path("a.part-" + std::to_string(::getpid()))), 0600u);
}

// Promise: the old group's permissions are the old group's, while the file is not yet its.
TEST_F(AtomicFileTest, TheTemporaryFileIsItsOwnersAloneUntilItHasTheOldGroup) {
  ::umask(0);
  for (const mode_t mode : {0660, 0604, 0444}) {
    const std::string name = put("a", "old", mode);
    permissions_before_change_of_owner.reset();
    EXPECT_EQ(message_of(write_whole_file(name, "new")), "success");
    EXPECT_EQ(permissions_before_change_of_owner, mode & 0700);
    EXPECT_EQ(permissions(name), mode);
    fs::remove(name);
  }
}

TEST_F(AtomicFileTest, AnotherGroupGetsNoMoreThanEverybody) {
  refuse_changes_of_owner = true;
  for (const auto &[before, after] : {std::pair<mode_t, mode_t>{0660, 0600}, {0604, 0644}, {0640, 0600}}) {
    const std::string name = put("a", "old", before);
    EXPECT_EQ(message_of(write_whole_file(name, "new")), "success");
    EXPECT_EQ(permissions(name), after);
    fs::remove(name);
  }
}

// An access list in the form of the attribute "system.posix_acl_access": a version, and entries in the order of their
// tags.
struct AccessEntry {
  enum Tag : uint16_t { kOwner = 1, kUser = 2, kGroup = 4, kMask = 16, kOthers = 32 };
  uint16_t tag;
  uint16_t permissions;
  uint32_t id = ~0u;
};

std::string access_list(const std::vector<AccessEntry> &entries) {
  constexpr uint32_t kVersion = 2;
  std::string list(sizeof(kVersion) + entries.size() * sizeof(AccessEntry), '\0');
  std::memcpy(list.data(), &kVersion, sizeof(kVersion));
  std::memcpy(list.data() + sizeof(kVersion), entries.data(), entries.size() * sizeof(AccessEntry));
  return list;
}

// The owner and so many users may write, others read, the file's group nothing. st_mode has 0664 for it.
std::string list_with_users(uint32_t users) {
  std::vector<AccessEntry> entries = {{AccessEntry::kOwner, 6}};
  for (uint32_t i = 0; i < users; ++i) entries.push_back({AccessEntry::kUser, 6, 12345 + i});
  entries.insert(entries.end(), {{AccessEntry::kGroup, 0}, {AccessEntry::kMask, 6}, {AccessEntry::kOthers, 4}});
  return access_list(entries);
}

class AccessList : public AtomicFileTest {
 protected:
  static constexpr const char *kOfFile = "system.posix_acl_access", *kOfNewFiles = "system.posix_acl_default";

  void SetUp() override {
    AtomicFileTest::SetUp();
    if (!set(directory_, kOfNewFiles, list_with_users(1)))
      GTEST_SKIP() << "no access lists in " << directory_ << ": " << std::strerror(errno);
    ::removexattr(directory_.c_str(), kOfNewFiles);
  }
  static bool set(const std::string &path, const char *attribute, const std::string &list) {
    return ::setxattr(path.c_str(), attribute, list.data(), list.size(), 0) == 0;
  }
  // Empty where there is none.
  static std::string get(const std::string &path) {
    std::string list(65536, '\0');
    const ssize_t size = ::getxattr(path.c_str(), kOfFile, list.data(), list.size());
    list.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return list;
  }
};

TEST_F(AccessList, IsKept) {
  for (const uint32_t users : {1u, 200u}) {
    const std::string name = put("a", "old"), list = list_with_users(users);
    ASSERT_TRUE(set(name, kOfFile, list)) << std::strerror(errno);
    ASSERT_EQ(permissions(name), 0664u);
    EXPECT_EQ(message_of(write_whole_file(name, "new")), "success");
    EXPECT_EQ(read(name), "new");
    EXPECT_EQ(get(name), list);
    EXPECT_EQ(permissions(name), 0664u);
  }
}

// What it gives the group would be another group's then.
TEST_F(AccessList, ThatCannotBeKeptLeavesTheFileToItsOwner) {
  const std::string name = put("a", "old");
  ASSERT_TRUE(set(name, kOfFile, list_with_users(1))) << std::strerror(errno);
  refuse_changes_of_owner = true;
  EXPECT_EQ(message_of(write_whole_file(name, "new")), "success");
  EXPECT_EQ(get(name), "");
  EXPECT_EQ(permissions(name), 0600u);
}

TEST_F(AccessList, OfTheFolderIsNotForAFileThatHadNone) {
  const std::string name = put("a", "old", 0660);
  ASSERT_TRUE(set(directory_, kOfNewFiles, list_with_users(1))) << std::strerror(errno);
  EXPECT_EQ(message_of(write_whole_file(name, "new")), "success");
  EXPECT_EQ(get(name), "");
  EXPECT_EQ(permissions(name), 0660u);
  EXPECT_EQ(message_of(write_whole_file(path("b"), "new")), "success");
  EXPECT_NE(get(path("b")), "") << "a new file gets what the folder says";
}

TEST_F(AtomicFileTest, RootLeavesAFileToItsOwner) {
  const std::string name = put("a", "old", 0640);
  if (::chown(name.c_str(), 12345, 54321) != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(message_of(write_whole_file(name, "new")), "success");
  struct stat status {};
  ASSERT_EQ(::stat(name.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 12345u);
  EXPECT_EQ(status.st_gid, 54321u);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST_F(AtomicFileTest, ALinkStaysAndItsTargetIsReplaced) {
  fs::create_directory(directory_ / "far");
  put("far/target", "old", 0664);
  fs::create_symlink("target", directory_ / "far" / "hop");
  fs::create_symlink("far/hop", directory_ / "link");
  ASSERT_EQ(message_of(write_whole_file(path("link"), "new")), "success");
  EXPECT_TRUE(fs::is_symlink(directory_ / "link"));
  EXPECT_TRUE(fs::is_symlink(directory_ / "far" / "hop"));
  EXPECT_FALSE(fs::is_symlink(directory_ / "far" / "target"));
  EXPECT_EQ(read(path("far/target")), "new");
  EXPECT_EQ(permissions(path("far/target")), 0664u);
  EXPECT_EQ(names(), (Names{"far", "link"}));
}

TEST_F(AtomicFileTest, ALinkMayLeadToWhereNothingIsYet) {
  fs::create_symlink("target", directory_ / "link");
  ASSERT_EQ(message_of(write_whole_file(path("link"), "new")), "success");
  EXPECT_TRUE(fs::is_symlink(directory_ / "link"));
  EXPECT_EQ(read(path("target")), "new");
  EXPECT_EQ(names(), (Names{"link", "target"}));
}

TEST_F(AtomicFileTest, RefusesWhatIsNotARegularFile) {
  const std::string not_regular = ": is not a regular file, expected one or a new name";
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  fs::create_symlink("fifo", directory_ / "link");
  for (const std::string &name : {path("fifo"), path("link"), directory_.string(), std::string("/dev/null")}) {
    EXPECT_EQ(message_of(check_replaceable(name)), name + not_regular);
    const auto file = AtomicFile::create(name);
    EXPECT_FALSE(file);
  }
  EXPECT_TRUE(fs::is_fifo(directory_ / "fifo"));
  EXPECT_EQ(names(), (Names{"fifo", "link"}));
}

TEST_F(AtomicFileTest, SaysWhyItCannot) {
  const auto message = [](const std::string &name) { return message_of(write_whole_file(name, "x")); };
  const std::string none = "No such file or directory";
  EXPECT_EQ(message(path("none/a")), path("none/a") + ": cannot create a file in " + path("none") + ": " + none);
  EXPECT_EQ(message("none/a"), "none/a: cannot create a file in none: " + none);
  EXPECT_EQ(message(""), "expected the name of a file to write, found an empty one");
  EXPECT_EQ(message(std::string("cut\0.gguf", 9)),
            "cut\\x00.gguf: expected the name of a file to write, found one with a NUL byte");
  put("file", "x");
  EXPECT_EQ(message(path("file/a")), path("file/a") + ": cannot write: Not a directory");
  fs::create_symlink("circle", directory_ / "circle");
  EXPECT_EQ(message(path("circle")), path("circle") + ": cannot write: Too many levels of symbolic links");
  fs::create_symlink("none/b", directory_ / "link");
  EXPECT_EQ(message(path("link")), path("link") + ": cannot create a file in " + path("none") + ": " + none);
  EXPECT_EQ(names(), (Names{"circle", "file", "link"}));
}

TEST_F(AtomicFileTest, RefusesAFolderThatIsClosed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
  const std::string name = put("a", "old");
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec);
  const std::string message = message_of(check_replaceable(name));
  fs::permissions(directory_, fs::perms::owner_all);
  EXPECT_EQ(message, name + ": cannot create a file in " + directory_.string() + ": Permission denied");
}

TEST_F(AtomicFileTest, AskingBeforehandChangesNothing) {
  const std::string old = put("old", "old", 0640);
  EXPECT_EQ(message_of(check_replaceable(old)), "success");
  EXPECT_EQ(message_of(check_replaceable(path("new"))), "success");
  EXPECT_EQ(read(old), "old");
  EXPECT_EQ(names(), Names{"old"});
}

// What write() and then commit() say where files are limited to 32 KiB, as a disk that fills up would have it.
std::string write_beyond_the_limit(const std::string &path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{32768, 32768};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  auto file = AtomicFile::create(path);
  if (!file) return file.error().message;
  const std::string written = message_of(file->write(bytes(std::string(65536, 'x'))));
  return file->commit() ? "committed" : written;
}

TEST_F(AtomicFileTest, AFullDiskLeavesTheOldFile) {
  const std::string name = put("a", "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(write_beyond_the_limit(name) == name + ": cannot write: File too large" ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(read(name), "old");
  EXPECT_EQ(names(), Names{"a"});
}

}  // namespace
}  // namespace bonsai
