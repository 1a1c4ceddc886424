// bonsai-bench-kernels: that it has a case for every kernel, and that a case tells what it should. Nothing here asserts
// a time.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/quant/format.h"
#include "plugins/cpu/kernels/kernels.h"
#include "tests/tools/tool.h"

namespace bonsai::test {
namespace {

using nlohmann::json;

// A moment of the cases that match.
json run_cases(const std::string &filter) {
  const Outcome outcome = run_shell(
      "bonsai-bench-kernels --memory-bytes=1048576 --benchmark_min_time=0.001 "
      "--benchmark_format=json --benchmark_filter='" +
      filter + "'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out);
}

TEST(BenchKernels, HasACaseForEveryKernelFormatShapeAndTier) {
  const Outcome outcome = run_shell("bonsai-bench-kernels --benchmark_list_tests");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(names.insert(line).second) << line << " twice";
  for (const cpu::KernelTable *kernels : cpu::runnable_kernels()) {
    const std::string tier = kernels->name;
    for (const quant::FormatTraits &format : quant::formats()) {
      for (const char *shape : {"2048x2048", "6144x2048", "2048x6144"}) {
        for (const char *n : {"1", "8", "32", "128"}) {
          const std::string name =
              "matmul/" + std::string(format.name) + "/" + tier + "/" + shape + "/n:" + n + "/memory";
          EXPECT_TRUE(names.count(name)) << name;
        }
      }
    }
    for (const std::string &name :
         {"rms_norm/" + tier + "/2048/", "swiglu/" + tier + "/6144/", "max_value/" + tier + "/151936/",
          "sum_exp/" + tier + "/151936/", "attend/F16/" + tier + "/64x128/queries:4/",
          "quantize/Q8_0/" + tier + "/2048/n:1/"})
      EXPECT_TRUE(names.count(name + "cache") && names.count(name + "memory")) << name;
  }
}

TEST(BenchKernels, APromptIsHeldAgainstMemoryAndPeak) {
  const json result = run_cases("^matmul/TQ2_0_G128/portable/.*/n:8/cache$");
  for (const char *limit :
       {"streaming, 1 thread", "int8 peak, 1 thread", "FMA peak, 1 thread", "working set of /memory"})
    EXPECT_TRUE(result["context"].contains(limit)) << limit;
  ASSERT_EQ(result["benchmarks"].size(), 1u);
  const json one = result["benchmarks"][0];
  for (const char *counter : {"weights/s", "bytes/s", "stream_share"}) EXPECT_GT(one[counter], 0.0) << counter;
  const bool has_peak = result["context"]["int8 peak, 1 thread"].get<std::string>().rfind("not measured", 0) != 0;
  EXPECT_EQ(one.value("peak_share", 0.0) > 0, has_peak);
  EXPECT_NEAR(one["bytes/s"].get<double>() / one["weights/s"].get<double>(), 34.0 / 128, 1e-6)
      << "the format's bytes in its weights";
}

TEST(BenchKernels, DecodingIsHeldAgainstMemoryOnly) {
  const json result = run_cases("^matmul/Q1_0_G128/portable/2048x2048/n:1/memory$");
  ASSERT_EQ(result["benchmarks"].size(), 1u);
  const json one = result["benchmarks"][0];
  for (const char *counter : {"weights/s", "bytes/s", "stream_share"}) EXPECT_GT(one[counter], 0.0) << counter;
  EXPECT_FALSE(one.contains("peak_share"));
}

TEST(BenchKernels, EveryOtherKernelRunsInAndOutOfCache) {
  const json result = run_cases("^(rms_norm|swiglu|max_value|sum_exp|attend/Q8_0|quantize/Q8_0)/portable/");
  EXPECT_EQ(result["benchmarks"].size(), 2u * (4 + 2 + 2));
  for (const json &one : result["benchmarks"]) {
    for (const char *counter : {"bytes/s", "stream_share"}) EXPECT_GT(one[counter], 0.0) << one["name"] << counter;
    EXPECT_TRUE(one.contains("elements/s") || one.contains("positions/s")) << one["name"];
  }
}

TEST(BenchKernelsRefuses, BadSizesAndUnknownCases) {
  const std::vector<std::string> bad_sizes = {"4095", "many", "", "-1", "1099511627777", "1e9"};
  for (const std::string &size : bad_sizes) {
    const Outcome outcome = run_shell("bonsai-bench-kernels --memory-bytes=" + size);
    EXPECT_EQ(outcome.exit_code, 2) << size;
    EXPECT_EQ(outcome.err,
              "bonsai-bench-kernels: --memory-bytes: expected a whole number from 4096 to 1099511627776, found '" +
                  size + "'\n");
  }
  EXPECT_EQ(run_shell("bonsai-bench-kernels --no-such-option").exit_code, 2);
  EXPECT_EQ(run_shell("bonsai-bench-kernels --memory-bytes=4096 --benchmark_filter=no-such-case").exit_code, 1);
}

}  // namespace
}  // namespace bonsai::test
