// Every kernel compiles, and those in which time is spent keep to their registers, on every architecture and without a
// GPU. All units and all architectures, but each unit for one of them: each for each takes minutes
// (every_unit_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plugins/cuda/compile/unit_check.h"

namespace bonsai::cuda {
namespace {

class KernelsOn : public testing::TestWithParam<int> {};

TEST_P(KernelsOn, CompileAndKeepToTheirRegisters) {
  const auto *const place = std::find(kTestedCapabilities.begin(), kTestedCapabilities.end(), GetParam());
  std::vector<const Unit *> wanted;
  for (size_t i = static_cast<size_t>(place - kTestedCapabilities.begin()); i < units().size();
       i += kTestedCapabilities.size()) {
    wanted.push_back(&units()[i]);
  }
  const UnitCheck check = check_units(GetParam(), wanted);
  if (!check.skipped.empty()) GTEST_SKIP() << check.skipped;
  for (const std::string &complaint : check.complaints) ADD_FAILURE() << complaint;
}

INSTANTIATE_TEST_SUITE_P(Architectures, KernelsOn, testing::ValuesIn(kTestedCapabilities),
                         [](const auto &info) { return "sm_" + std::to_string(info.param); });

}  // namespace
}  // namespace bonsai::cuda
