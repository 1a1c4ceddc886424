// Who divides work asks first how many threads there can be.
#include "core/base/runnable_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>

#include "tests/base/refuse_threads.h"

namespace bonsai {
namespace {

TEST(RunnableThreads, AreAsManyAsAreAskedForWhereNothingLimitsThem) {
  EXPECT_EQ(runnable_threads(0), 1);
  EXPECT_EQ(runnable_threads(1), 1);
  EXPECT_EQ(runnable_threads(4), 4);
}

TEST(RunnableThreads, AreCountedWhereTheSystemAllowsFew) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the memory that is taken away";
#endif
  const auto count_without_memory = [] {
    const rlimit none = {.rlim_cur = 0, .rlim_max = 0};  // for another stack; a few of former threads are kept
    if (setrlimit(RLIMIT_AS, &none) != 0) std::_Exit(99);
    const int found = runnable_threads(64);
    std::_Exit(found >= 1 && found < 64 ? 0 : 1);
  };
  EXPECT_EXIT(count_without_memory(), testing::ExitedWithCode(0), "");
}

TEST(RunnableThreads, AreTheCallingOneWhereNoOtherIsAllowed) {
  const auto count = [] {
    test::refuse_threads();
    std::_Exit(runnable_threads(8) == 1 ? 0 : 1);
  };
  EXPECT_EXIT(count(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bonsai
