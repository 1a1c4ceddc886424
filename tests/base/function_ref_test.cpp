#include "core/base/function_ref.h"

#include <gtest/gtest.h>

#include <memory>

namespace bonsai {
namespace {

int apply(FunctionRef<int(int)> function, int to) { return function(to); }

TEST(FunctionRef, CallsWhatItRefersTo) {
  int offset = 1;
  const auto add = [&](int x) { return x + offset; };
  const FunctionRef<int(int)> function = add;
  EXPECT_EQ(function(2), 3);
  offset = 10;
  EXPECT_EQ(apply(function, 2), 12);
  EXPECT_EQ(apply([](int x) { return -x; }, 2), -2);
}

TEST(FunctionRef, PassesArgumentsAsTheyCome) {
  const auto empty = [](std::unique_ptr<int> from, int &to) { to = *from; };
  const FunctionRef<void(std::unique_ptr<int>, int &)> function = empty;
  int to = 0;
  function(std::make_unique<int>(7), to);
  EXPECT_EQ(to, 7);
}

}  // namespace
}  // namespace bonsai
