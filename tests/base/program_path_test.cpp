#include "core/base/program_path.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace bonsai {
namespace {

TEST(ProgramPath, IsThatOfThisTest) { EXPECT_EQ(program_path().filename(), "base_test"); }

TEST(ProgramPath, IsTheSameWithoutProc) {
  EXPECT_EQ(program_path("/nowhere/self/exe"), std::filesystem::canonical("/proc/self/exe"));
}

}  // namespace
}  // namespace bonsai
