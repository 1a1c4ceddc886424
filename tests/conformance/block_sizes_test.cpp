// The conformance suite asks nothing of a backend that its block size makes impossible: backends with the smallest
// blocks that the header allows, and with blocks that hold more than the suite's sequences, pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <tuple>
#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {
namespace {

using Subject = std::tuple<std::string, std::string>;  // plugin, check

class BlockSizes : public testing::TestWithParam<Subject> {};

TEST_P(BlockSizes, Pass) {
  const auto &[plugin, name] = GetParam();
  const std::vector<Check> checks = all_checks();
  const auto check = std::find_if(checks.begin(), checks.end(), [&](const Check &each) { return each.name == name; });
  ASSERT_NE(check, checks.end()) << name;
  const Finding finding = run(*check, {.path = plugin, .device = 0, .options = {}});
  EXPECT_TRUE(finding.verdict == Verdict::kPassed) << check->promise << ": " << finding.why;
}

std::string test_name(const testing::TestParamInfo<Subject> &info) {
  const auto &[plugin, check] = info.param;
  std::string name = plugin.substr(plugin.rfind('_') + 1) + "_" + check;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

// Those that count in blocks.
INSTANTIATE_TEST_SUITE_P(
    Every, BlockSizes,
    testing::Combine(testing::Values(BONSAI_SMALL_BLOCKS_PLUGIN, BONSAI_LARGE_BLOCKS_PLUGIN),
                     testing::Values("arguments.sessions", "arguments.batches", "arguments.unharmed", "arguments.kv",
                                     "layer.biases", "forward.batches", "forward.pieces", "kv.f32", "kv.rollback",
                                     "kv.copy", "kv.move", "kv.layout", "deterministic", "lifetime.leaks")),
    test_name);

}  // namespace
}  // namespace bonsai::check
