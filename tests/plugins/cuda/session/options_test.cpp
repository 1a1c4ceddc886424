#include "plugins/cuda/options.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "plugins/common/failure.h"

namespace bonsai::cuda {
namespace {

Options parse(const std::vector<std::pair<const char *, const char *>> &given) {
  std::vector<bonsai_option> options;
  for (const auto &[key, value] : given) options.push_back({sizeof(bonsai_option), key, value});
  std::vector<const bonsai_option *> pointers;
  for (const bonsai_option &option : options) pointers.push_back(&option);
  bonsai_device_config config{};
  config.struct_size = sizeof config;
  config.n_options = static_cast<uint32_t>(pointers.size());
  config.options = pointers.data();
  return parse_options(config);
}

std::string failure_of(const char *key, const char *value) {
  try {
    parse({{key, value}});
    return "accepted";
  } catch (const plugin::Failure &failure) {
    return failure.what();
  }
}

TEST(CudaOptions, DefaultsAreTheDocumentedOnes) {
  const Options options = parse({});
  EXPECT_EQ(options.kernel_cache, "");
  EXPECT_TRUE(options.graphs);
  EXPECT_EQ(options.fusion, Fusion::kSwiglu);
  EXPECT_TRUE(options.overlap);
  EXPECT_EQ(options.waiting, Event::Waiting::kAsTheDriver);
  EXPECT_FALSE(options.warm);
}

TEST(CudaOptions, AreRead) {
  const Options options = parse({{"cuda.kernel_cache", "/var/cache/k"},
                                 {"cuda.graphs", "off"},
                                 {"cuda.fusion", "off"},
                                 {"cuda.overlap", "off"},
                                 {"cuda.wait", "block"},
                                 {"cuda.warm", "on"}});
  EXPECT_EQ(options.kernel_cache, "/var/cache/k");
  EXPECT_FALSE(options.graphs);
  EXPECT_EQ(options.fusion, Fusion::kOff);
  EXPECT_FALSE(options.overlap);
  EXPECT_EQ(options.waiting, Event::Waiting::kAsleep);
  EXPECT_TRUE(options.warm);
  EXPECT_EQ(parse({{"cuda.kernel_cache", "off"}}).kernel_cache, "off");
}

TEST(CudaOptions, BadValuesNameTheKeyAndWhatWasExpected) {
  EXPECT_EQ(failure_of("cuda.graphs", "yes"), "cuda.graphs is 'yes', expected on or off");
  EXPECT_EQ(failure_of("cuda.fusion", "some"), "cuda.fusion is 'some', expected off, attention or swiglu");
  EXPECT_EQ(failure_of("cuda.wait", "sleep"), "cuda.wait is 'sleep', expected spin or block");
  EXPECT_EQ(failure_of("cuda.warm", ""), "cuda.warm is '', expected on or off");
  EXPECT_EQ(failure_of("cuda.kernel_cache", "here"),
            "cuda.kernel_cache is 'here', expected off or a directory's absolute path");
  EXPECT_EQ(failure_of("cuda.graphs", nullptr), "the value of option cuda.graphs is NULL");
  EXPECT_EQ(failure_of("cuda.threads", "2"),
            "unknown option cuda.threads, expected cuda.kernel_cache, cuda.graphs, cuda.fusion, cuda.overlap, "
            "cuda.wait or "
            "cuda.warm");
}

TEST(CudaOptions, AllAreListedWithHelp) {
  ASSERT_EQ(option_infos().size(), 6u);
  for (const bonsai_option_info *info : option_infos()) {
    EXPECT_EQ(info->struct_size, sizeof *info);
    EXPECT_NE(std::string(info->help).find("default"), std::string::npos) << info->key;
  }
}

// Hosts show no more.
TEST(CudaOptions, AreExplainedIn256Bytes) {
  for (const bonsai_option_info *info : option_infos()) EXPECT_LE(std::strlen(info->help), 256u) << info->key;
}

}  // namespace
}  // namespace bonsai::cuda
