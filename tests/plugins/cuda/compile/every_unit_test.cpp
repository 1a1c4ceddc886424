// Every kernel on every architecture: compiles, and keeps to its registers where time is spent.
#include <gtest/gtest.h>

#include "tests/plugins/cuda/compile/unit_check.h"

namespace bonsai::cuda {
namespace {

class EveryKernelOn : public testing::TestWithParam<int> {};

TEST_P(EveryKernelOn, CompilesAndKeepsToItsRegisters) {
  std::vector<const Unit *> wanted;
  for (const Unit &unit : units()) wanted.push_back(&unit);
  const UnitCheck check = check_units(GetParam(), wanted);
  if (!check.skipped.empty()) GTEST_SKIP() << check.skipped;
  for (const std::string &complaint : check.complaints) ADD_FAILURE() << complaint;
}

INSTANTIATE_TEST_SUITE_P(Architectures, EveryKernelOn, testing::ValuesIn(kTestedCapabilities),
                         [](const auto &info) { return "sm_" + std::to_string(info.param); });

}  // namespace
}  // namespace bonsai::cuda
