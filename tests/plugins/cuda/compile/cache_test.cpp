// The cache gives back what was stored, never anything else, and never stands in the way.
#include "plugins/cuda/compile/cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "tests/plugins/cuda/compile/temporary_directory.h"

namespace bonsai::cuda {
namespace {

namespace fs = std::filesystem;

TEST(KernelCacheDirectory, FollowsOptionAndEnvironment) {
  EXPECT_EQ(kernel_cache_directory("", "/xdg", "/home/a"), "/xdg/bonsai/kernels");
  EXPECT_EQ(kernel_cache_directory("", nullptr, "/home/a"), "/home/a/.cache/bonsai/kernels");
  EXPECT_EQ(kernel_cache_directory("", "", "/home/a"), "/home/a/.cache/bonsai/kernels");
  // The specification of base directories: a relative path is not valid, and is ignored.
  EXPECT_EQ(kernel_cache_directory("", "xdg", "/home/a"), "/home/a/.cache/bonsai/kernels");
  EXPECT_EQ(kernel_cache_directory("", nullptr, nullptr), "");
  EXPECT_EQ(kernel_cache_directory("", "xdg", "home"), "");
  EXPECT_EQ(kernel_cache_directory("off", "/xdg", "/home/a"), "");
  EXPECT_EQ(kernel_cache_directory("/my/kernels", "/xdg", "/home/a"), "/my/kernels");
}

CacheKey key_of(uint8_t first, int version = 13000) { return {.digest = {first}, .nvrtc_version = version}; }
std::vector<Digest> digests(std::initializer_list<uint8_t> firsts) {
  std::vector<Digest> all;
  for (const uint8_t first : firsts) all.push_back(key_of(first).digest);
  return all;
}

Binary binary_of(int i) {
  return {.ptx = "ptx " + std::to_string(i), .cubin = std::string(1000, static_cast<char>(i))};
}

class KernelCaches : public testing::Test {
 protected:
  Log log() {
    return [this](bonsai_log_level level, const std::string &line) {
      lines_.push_back(std::to_string(level) + " " + line);
    };
  }
  std::string file_of(const CacheKey &key) const {
    return path_ + "/" + hex(key.digest) + ".nvrtc-" + std::to_string(key.nvrtc_version);
  }
  static std::string read(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryDirectory temporary_;
  std::string path_ = temporary_.path() + "/kernels";
  std::vector<std::string> lines_;
};

// A constructor's promise: caches neither move nor copy, since threads share them.
static_assert(!std::is_copy_constructible_v<KernelCache>);

TEST_F(KernelCaches, GiveBackWhatWasStored) {
  KernelCache cache(path_, log());
  EXPECT_FALSE(cache.load(key_of(1)));
  EXPECT_FALSE(fs::exists(path_));
  cache.store(key_of(1), binary_of(1));
  cache.store(key_of(2), binary_of(2));
  KernelCache next(path_, log());
  ASSERT_TRUE(next.load(key_of(1)));
  EXPECT_EQ(next.load(key_of(1))->ptx, "ptx 1");
  EXPECT_EQ(next.load(key_of(2))->cubin, binary_of(2).cubin);
  EXPECT_FALSE(next.load(key_of(3)));
  EXPECT_FALSE(next.load(key_of(1, 12040)));
  EXPECT_TRUE(lines_.empty());
}

bool any(const Binary &) { return true; }

TEST_F(KernelCaches, ThatAreOffKeepNothing) {
  KernelCache cache("", log());
  cache.store(key_of(1), binary_of(1));
  EXPECT_FALSE(cache.load(key_of(1)));
  EXPECT_FALSE(cache.load_any(digests({1}), any));
  EXPECT_TRUE(lines_.empty());
}

TEST_F(KernelCaches, FindTheNewestCompilersWork) {
  KernelCache cache(path_, log());
  EXPECT_FALSE(cache.load_any(digests({1}), any));
  cache.store(key_of(1, 9020), binary_of(9));
  cache.store(key_of(1, 13000), binary_of(13));
  cache.store(key_of(1, 12040), binary_of(12));
  cache.store(key_of(2, 14000), binary_of(14));
  ASSERT_TRUE(cache.load_any(digests({1}), any));
  EXPECT_EQ(cache.load_any(digests({1}), any)->ptx, "ptx 13");
  std::ofstream(file_of(key_of(1, 13000))) << "damaged";
  EXPECT_EQ(cache.load_any(digests({1}), any)->ptx, "ptx 12");
  EXPECT_EQ(cache.load_any(digests({1}), [](const Binary &binary) { return binary.ptx == "ptx 9"; })->ptx, "ptx 9");
  EXPECT_FALSE(cache.load_any(digests({1}), [](const Binary &) { return false; }));
}

// Their order is the caller's choice, before any compiler's age.
TEST_F(KernelCaches, FindTheFirstOfSeveralUnits) {
  KernelCache cache(path_, log());
  cache.store(key_of(2, 12040), binary_of(2));
  cache.store(key_of(3, 13000), binary_of(3));
  EXPECT_EQ(cache.load_any(digests({1, 2, 3}), any)->ptx, "ptx 2");
  EXPECT_FALSE(cache.load_any(digests({1, 4}), any));
}

TEST_F(KernelCaches, DoNotTrustDamagedEntries) {
  KernelCache cache(path_, log());
  cache.store(key_of(1), binary_of(1));
  const std::string file = file_of(key_of(1)), whole = read(file);
  fs::resize_file(file, whole.size() / 2);
  EXPECT_FALSE(cache.load(key_of(1)));
  EXPECT_EQ(lines_, std::vector<std::string>{"1 cuda: kernel cache: " + fs::path(file).filename().string() +
                                             " is damaged and not used"});
  cache.store(key_of(1), binary_of(1));
  EXPECT_TRUE(cache.load(key_of(1)));
}

TEST_F(KernelCaches, DoNotTrustEntriesUnderOtherNames) {
  KernelCache cache(path_, log());
  cache.store(key_of(1), binary_of(1));
  fs::copy_file(file_of(key_of(1)), file_of(key_of(2)));
  EXPECT_FALSE(cache.load(key_of(2)));
}

TEST_F(KernelCaches, DoNotUseDirectoriesThatOthersWrite) {
  KernelCache cache(path_, log());
  cache.store(key_of(1), binary_of(1));
  chmod(path_.c_str(), 0777);
  EXPECT_FALSE(cache.load(key_of(1)));
  EXPECT_FALSE(cache.load_any(digests({1}), any));
  cache.store(key_of(2), binary_of(2));
  EXPECT_FALSE(fs::exists(file_of(key_of(2))));
  EXPECT_EQ(lines_,
            std::vector<std::string>{"2 cuda: kernel cache: " + path_ +
                                     ": others can write it (mode 0777), expected 0700; kernels are compiled at "
                                     "every start"});
}

// Another version that is this user's alone may still do.
TEST_F(KernelCaches, PassOverEntriesThatOthersWrite) {
  KernelCache cache(path_, log());
  cache.store(key_of(1, 13000), binary_of(13));
  cache.store(key_of(1, 12040), binary_of(12));
  EXPECT_EQ(cache.complaint(), "");
  const std::string newer = file_of(key_of(1, 13000));
  chmod(newer.c_str(), 0664);
  EXPECT_FALSE(cache.load(key_of(1, 13000)));
  ASSERT_TRUE(cache.load_any(digests({1}), any));
  EXPECT_EQ(cache.load_any(digests({1}), any)->ptx, "ptx 12");
  EXPECT_EQ(cache.complaint(), newer + ": others can write it (mode 0664), expected 0600");
  EXPECT_EQ(lines_, std::vector<std::string>{"2 cuda: kernel cache: " + cache.complaint() + "; it is not used"});
}

TEST_F(KernelCaches, OnReadOnlyDisksStillServe) {
  KernelCache(path_, log()).store(key_of(1), binary_of(1));
  chmod(temporary_.path().c_str(), 0755);
  chmod(path_.c_str(), 0500);
  const OrdinaryUser user({path_, file_of(key_of(1))});
  KernelCache cache(path_, log());
  cache.store(key_of(2), binary_of(2));
  cache.store(key_of(3), binary_of(3));
  EXPECT_TRUE(cache.load(key_of(1)));
  EXPECT_EQ(lines_, std::vector<std::string>{"2 cuda: kernel cache: " + path_ +
                                             ": Permission denied; kernels are compiled at every start"});
}

TEST_F(KernelCaches, OnFullDisksGoOn) {
  KernelCache cache(path_, log());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {500, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  cache.store(key_of(1), binary_of(1));
  cache.store(key_of(2), binary_of(2));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(fs::is_empty(path_));
  EXPECT_EQ(lines_, std::vector<std::string>{"2 cuda: kernel cache: " + path_ +
                                             ": File too large; kernels are compiled at every start"});
  cache.store(key_of(1), binary_of(1));
  EXPECT_TRUE(cache.load(key_of(1)));
}

void set_age(const std::string &path, time_t seconds) {
  const time_t then = time(nullptr) - seconds;
  const timespec times[2] = {{then, 0}, {then, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST_F(KernelCaches, LoseWhatWasUsedLongestAgo) {
  KernelCache cache(path_, log(), 4000);  // room for three entries
  for (uint8_t i = 1; i <= 3; ++i) {
    cache.store(key_of(i), binary_of(i));
    set_age(file_of(key_of(i)), 100 - i);
  }
  EXPECT_TRUE(cache.load(key_of(1)));  // so 2 is the oldest
  cache.store(key_of(4), binary_of(4));
  EXPECT_TRUE(cache.load(key_of(1)));
  EXPECT_FALSE(cache.load(key_of(2)));
  EXPECT_TRUE(cache.load(key_of(3)));
  EXPECT_TRUE(cache.load(key_of(4)));
}

TEST_F(KernelCaches, LeaveOtherFilesAlone) {
  KernelCache cache(path_, log(), 4000);
  cache.store(key_of(1), binary_of(1));
  const std::string entry = fs::path(file_of(key_of(1))).filename().string();
  const std::vector<std::string> others = {"model.gguf",       "notes",      ".writing-0123", "x" + entry.substr(1),
                                           entry + ".old",     entry + "0x", entry.substr(1), entry.substr(0, 64),
                                           entry.substr(0, 71)};
  for (const std::string &name : others) {
    std::ofstream(path_ + "/" + name) << std::string(10000, 'x');
    set_age(path_ + "/" + name, 1000);
  }
  cache.store(key_of(2), binary_of(2));
  for (const std::string &name : others) EXPECT_TRUE(fs::exists(path_ + "/" + name)) << name;
  EXPECT_TRUE(cache.load(key_of(1)));
  EXPECT_TRUE(cache.load(key_of(2)));
}

TEST_F(KernelCaches, LoseWhatWasNeverFinished) {
  KernelCache cache(path_, log());
  cache.store(key_of(1), binary_of(1));
  const std::string abandoned = path_ + "/.writing-0123";
  std::ofstream(abandoned) << "half";
  set_age(abandoned, 100000);
  cache.store(key_of(2), binary_of(2));
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(cache.load(key_of(1)));
}

// Stores and loads over and over; true if everything that was found was right.
bool store_and_load(const std::string &path, int times) {
  KernelCache cache(path, {}, 5000);  // and so entries also vanish
  for (int i = 0; i < times; ++i) {
    const auto which = static_cast<uint8_t>(i % 5);
    cache.store(key_of(which), binary_of(which));
    const auto found = cache.load(key_of(static_cast<uint8_t>((i + 2) % 5)));
    if (found && (found->ptx != binary_of((i + 2) % 5).ptx || found->cubin != binary_of((i + 2) % 5).cubin))
      return false;
  }
  return true;
}

TEST_F(KernelCaches, MayBeSharedByProcesses) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(store_and_load(path_, 300) ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  for (const auto &entry : fs::directory_iterator(path_)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path() << " was left behind";
  }
}

}  // namespace
}  // namespace bonsai::cuda
