#include "plugins/cpu/slabs.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace bonsai::cpu {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

void leave_address_space(uint64_t bytes) {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limit = {pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + bytes, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
}

TEST(Slabs, PartsLieBesideEachOther) {
  Slabs slabs;
  const auto first = slabs.allocate(100), second = slabs.allocate(1), third = slabs.allocate(33 * kMiB);
  EXPECT_EQ(second.get() - first.get(), 128);
  EXPECT_TRUE(third.get() < first.get() || third.get() >= first.get() + 64 * kMiB) << "too large to share";
}

// A model of less than a megabyte needed 64 of them.
TEST(Slabs, SmallWeightsNeedNoRoomForASlab) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than a limit leaves";
#endif
  const auto allocate = [] {
    leave_address_space(40 * kMiB);
    Slabs slabs;
    const auto part = slabs.allocate(kMiB), other = slabs.allocate(kMiB);
    std::memset(part.get(), 1, kMiB);
    std::memset(other.get(), 2, kMiB);
    ::_exit(part.get()[kMiB - 1] == std::byte{1} ? 0 : 1);
  };
  EXPECT_EXIT(allocate(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bonsai::cpu
