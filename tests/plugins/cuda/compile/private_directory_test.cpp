// Nothing is read from, nor written to, a directory that anybody else could have filled; files appear whole or not at
// all.
#include "plugins/cuda/compile/private_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <stdexcept>

#include "plugins/cuda/compile/cache.h"
#include "tests/plugins/cuda/compile/temporary_directory.h"

namespace bonsai::cuda {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

template <class Body>
std::string message_of(Body &&body) {
  try {
    body();
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "nothing was thrown";
}

class PrivateDirectories : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto &entry : fs::directory_iterator(path_)) all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }

  TemporaryDirectory temporary_;
  std::string path_ = temporary_.path() + "/bonsai/kernels";
};

TEST_F(PrivateDirectories, AreMadeForTheUserAlone) {
  const mode_t before = umask(0);
  PrivateDirectory::make(path_);
  umask(before);
  EXPECT_EQ(mode_of(path_), 0700u);
  EXPECT_EQ(mode_of(temporary_.path() + "/bonsai"), 0700u);
}

TEST_F(PrivateDirectories, ThatDoNotExistAreNotOpened) {
  EXPECT_FALSE(PrivateDirectory::open(path_));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(PrivateDirectories, ThatOthersReadAreTaken) {
  PrivateDirectory::make(path_);
  chmod(path_.c_str(), 0755);
  EXPECT_TRUE(PrivateDirectory::open(path_));
}

// That is the default, whose mode is promised: an older one, or one made by hand, is brought to it.
TEST_F(PrivateDirectories, OfTheDefaultsNameAreClosedToOthers) {
  PrivateDirectory::make(path_);
  ASSERT_EQ(path_, kernel_cache_directory("", temporary_.path().c_str(), nullptr));
  for (const mode_t mode : {0755u, 0750u, 0711u, 0704u}) {
    chmod(path_.c_str(), mode);
    EXPECT_TRUE(PrivateDirectory::open(path_ + "/"));
    EXPECT_EQ(mode_of(path_), 0700u);
    chmod(path_.c_str(), mode);
    PrivateDirectory::make(path_).write("entry", "text");
    EXPECT_EQ(mode_of(path_), 0700u);
  }
  chmod(path_.c_str(), 0500);
  EXPECT_TRUE(PrivateDirectory::open(path_));
  EXPECT_EQ(mode_of(path_), 0500u) << "nobody is given what they did not have";
}

TEST_F(PrivateDirectories, OfOtherNamesKeepTheirMode) {
  const std::string named = temporary_.path() + "/kernels";
  PrivateDirectory::make(named);
  EXPECT_EQ(mode_of(named), 0700u);
  chmod(named.c_str(), 0755);
  EXPECT_TRUE(PrivateDirectory::open(named));
  PrivateDirectory::make(named).write("entry", "text");
  EXPECT_EQ(mode_of(named), 0755u);
  EXPECT_EQ(mode_of(named + "/entry"), 0600u);
}

TEST_F(PrivateDirectories, ThatOthersWriteAreRefused) {
  PrivateDirectory::make(path_);
  for (const mode_t mode : {0770u, 0702u, 01777u}) {
    chmod(path_.c_str(), mode);
    const std::string expected = fmt::format("{}: others can write it (mode {:04o}), expected 0700", path_, mode);
    EXPECT_EQ(message_of([&] { PrivateDirectory::open(path_); }), expected);
    EXPECT_EQ(message_of([&] { PrivateDirectory::make(path_); }), expected);
  }
}

TEST_F(PrivateDirectories, OfOtherUsersAreRefused) {
  std::string path = "/usr", owner = "0";
  if (geteuid() == 0) {
    PrivateDirectory::make(path_);
    ASSERT_EQ(chown(path_.c_str(), kNobody, static_cast<gid_t>(-1)), 0);
    path = path_, owner = std::to_string(kNobody);
  }
  EXPECT_EQ(message_of([&] { PrivateDirectory::open(path); }),
            path + ": belongs to user " + owner + ", expected " + std::to_string(geteuid()));
}

TEST_F(PrivateDirectories, BehindSymbolicLinksAreRefused) {
  PrivateDirectory::make(path_);
  const std::string link = temporary_.path() + "/link";
  fs::create_directory_symlink(path_, link);
  const std::string expected = link + ": is a symbolic link, expected a directory";
  EXPECT_EQ(message_of([&] { PrivateDirectory::open(link); }), expected);
  EXPECT_EQ(message_of([&] { PrivateDirectory::open(link + "/"); }), expected);
  EXPECT_EQ(message_of([&] { PrivateDirectory::make(link + "//"); }), expected);
}

TEST_F(PrivateDirectories, ThatAreFilesAreRefused) {
  const std::string file = temporary_.path() + "/file";
  std::ofstream(file) << "text";
  EXPECT_EQ(message_of([&] { PrivateDirectory::open(file); }), file + ": Not a directory");
  EXPECT_EQ(message_of([&] { PrivateDirectory::make(file + "/kernels"); }), file + "/kernels: Not a directory");
}

TEST_F(PrivateDirectories, KeepFiles) {
  const PrivateDirectory directory = PrivateDirectory::make(path_);
  const std::string bytes("some\0bytes", 10);
  directory.write("entry", bytes);
  EXPECT_EQ(directory.read("entry", 100), bytes);
  EXPECT_EQ(mode_of(path_ + "/entry"), 0600u);
  directory.write("entry", "other");
  EXPECT_EQ(directory.read("entry", 100), "other");
  EXPECT_EQ(names(), std::vector<std::string>{"entry"});
  directory.remove("entry");
  directory.remove("entry");
  EXPECT_FALSE(directory.read("entry", 100));
}

TEST_F(PrivateDirectories, KeepFilesOfNoBytes) {
  const PrivateDirectory directory = PrivateDirectory::make(path_);
  directory.write("entry", "");
  EXPECT_EQ(directory.read("entry", 100), "");
}

TEST_F(PrivateDirectories, DoNotReadWhatIsTooLong) {
  const PrivateDirectory directory = PrivateDirectory::make(path_);
  directory.write("entry", "12345");
  EXPECT_TRUE(directory.read("entry", 5));
  EXPECT_FALSE(directory.read("entry", 4));
}

TEST_F(PrivateDirectories, DoNotReadLinksPipesAndDirectories) {
  const PrivateDirectory directory = PrivateDirectory::make(path_);
  directory.write("entry", "text");
  fs::create_symlink("entry", path_ + "/link");
  fs::create_directory(path_ + "/directory");
  ASSERT_EQ(mkfifo((path_ + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(directory.read("link", 100));
  EXPECT_FALSE(directory.read("directory", 100));
  EXPECT_FALSE(directory.read("pipe", 100));
  ASSERT_EQ(directory.list().size(), 1u);
  EXPECT_EQ(directory.list()[0].name, "entry");
}

TEST_F(PrivateDirectories, DoNotReadWhatOthersCanWrite) {
  const PrivateDirectory directory = PrivateDirectory::make(path_);
  directory.write("entry", "text");
  chmod((path_ + "/entry").c_str(), 0620);
  EXPECT_EQ(message_of([&] { directory.read("entry", 100); }),
            path_ + "/entry: others can write it (mode 0620), expected 0600");
}

TEST_F(PrivateDirectories, DoNotReadWhatOthersOwn) {
  const PrivateDirectory directory = PrivateDirectory::make(path_);
  directory.write("entry", "text");
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(chown((path_ + "/entry").c_str(), kNobody, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(message_of([&] { directory.read("entry", 100); }), path_ + "/entry: belongs to user 65534, expected 0");
}

TEST_F(PrivateDirectories, SayWhichFileCannotBeOpened) {
  const PrivateDirectory directory = PrivateDirectory::make(path_);
  directory.write("entry", "text");
  chmod((path_ + "/entry").c_str(), 0200);
  chmod(temporary_.path().c_str(), 0755);
  const OrdinaryUser user({path_, temporary_.path() + "/bonsai", path_ + "/entry"});
  EXPECT_EQ(message_of([&] { directory.read("entry", 100); }), path_ + "/entry: Permission denied");
}

TEST_F(PrivateDirectories, ThatCannotBeWrittenSaySoAndStillRead) {
  const PrivateDirectory made = PrivateDirectory::make(path_);
  made.write("entry", "text");
  chmod(temporary_.path().c_str(), 0755);
  chmod(path_.c_str(), 0500);
  const OrdinaryUser user({path_, temporary_.path() + "/bonsai", path_ + "/entry"});
  const auto directory = PrivateDirectory::open(path_);
  ASSERT_TRUE(directory);
  EXPECT_EQ(message_of([&] { directory->write("another", "text"); }), path_ + ": Permission denied");
  EXPECT_EQ(message_of([&] { PrivateDirectory::make(path_ + "/below"); }), path_ + "/below: Permission denied");
  EXPECT_EQ(directory->read("entry", 100), "text");
}

// A disk that fills up in the middle of a file, as far as a test can have one: the limit cuts a write short and fails
// the next.
TEST_F(PrivateDirectories, FilesThatDoNotFitLeaveNothingBehind) {
  const PrivateDirectory directory = PrivateDirectory::make(path_);
  directory.write("entry", "old");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string message = message_of([&] { directory.write("entry", std::string(5000, 'x')); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, path_ + ": File too large");
  EXPECT_EQ(names(), std::vector<std::string>{"entry"});
  EXPECT_EQ(directory.read("entry", 100), "old");
}

void set_age(const std::string &path, time_t seconds) {
  const time_t then = time(nullptr) - seconds;
  const timespec times[2] = {{then, 0}, {then, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST_F(PrivateDirectories, ListThoseUsedLongestAgoFirst) {
  const PrivateDirectory directory = PrivateDirectory::make(path_);
  for (const char *name : {"a", "b", "c"}) directory.write(name, name);
  set_age(path_ + "/a", 20);
  set_age(path_ + "/b", 30);
  set_age(path_ + "/c", 10);
  const auto order = [&] {
    std::string all;
    for (const auto &file : directory.list()) all += file.name;
    return all;
  };
  EXPECT_EQ(order(), "bac");
  EXPECT_TRUE(directory.read("b", 100));  // which is using it
  EXPECT_EQ(order(), "acb");
}

TEST_F(PrivateDirectories, LoseWhatWasNeverFinished) {
  const PrivateDirectory directory = PrivateDirectory::make(path_);
  for (const char *name : {"entry", ".writing-old", ".writing-new"}) std::ofstream(path_ + "/" + name) << name;
  set_age(path_ + "/entry", 100000);
  set_age(path_ + "/.writing-old", 3700);
  set_age(path_ + "/.writing-new", 3500);
  directory.remove_abandoned();
  EXPECT_EQ(names(), (std::vector<std::string>{".writing-new", "entry"}));
}

}  // namespace
}  // namespace bonsai::cuda
