// NVRTC is looked for where it may be, the driver's own version first, and is named when it is nowhere.
#include "plugins/cuda/compile/nvrtc.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "plugins/common/failure.h"

namespace bonsai::cuda {
namespace {

class NvrtcLoading : public testing::Test {
 protected:
  void SetUp() override {
    set("CUDA_HOME", nullptr);
    set("CUDA_PATH", nullptr);
  }
  void TearDown() override {
    set("CUDA_HOME", home_ ? home_->c_str() : nullptr);
    set("CUDA_PATH", path_ ? path_->c_str() : nullptr);
  }
  static void set(const char *name, const char *value) { value ? setenv(name, value, 1) : unsetenv(name); }
  static std::optional<std::string> get(const char *name) {
    const char *value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  }

 private:
  std::optional<std::string> home_ = get("CUDA_HOME"), path_ = get("CUDA_PATH");
};

TEST_F(NvrtcLoading, DriversOwnVersionGoesFirst) {
  const std::vector<std::string> thirteen = {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13"};
  const std::vector<std::string> twelve = {"libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.12"};
  const auto joined = [](std::vector<std::string> a, const std::vector<std::string> &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  EXPECT_EQ(nvrtc_candidates(12040), joined(twelve, thirteen));
  EXPECT_EQ(nvrtc_candidates(13000), joined(thirteen, twelve));
  EXPECT_EQ(nvrtc_candidates(14000), joined(thirteen, twelve));
}

TEST_F(NvrtcLoading, ToolkitsOfTheEnvironmentComeBeforeTheUsualOne) {
  set("CUDA_HOME", "/opt/a");
  set("CUDA_PATH", "/opt/b");
  const std::vector<std::string> found = nvrtc_candidates(13000);
  const std::vector<std::string> expected = {"libnvrtc.so.13", "/opt/a/lib64/libnvrtc.so.13",
                                             "/opt/b/lib64/libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13"};
  EXPECT_EQ(std::vector(found.begin(), found.begin() + 4), expected);
}

// A relative directory would be the one that the user happens to be in.
TEST_F(NvrtcLoading, RelativeAndRepeatedToolkitsAreLeftOut) {
  set("CUDA_HOME", "/usr/local/cuda");
  set("CUDA_PATH", "cuda");
  EXPECT_EQ(nvrtc_candidates(13000).size(), 4u);
}

TEST_F(NvrtcLoading, MissingLibraryNamesAllThatWasLookedFor) {
  const NvrtcResult result = NvrtcSearch({"libnvrtc-nowhere.so.13", "/nonexistent/lib64/libnvrtc.so.12"}).proved();
  EXPECT_FALSE(result.nvrtc);
  EXPECT_EQ(result.reason, "NVRTC is not found, looked for libnvrtc-nowhere.so.13, /nonexistent/lib64/libnvrtc.so.12");
}

TEST_F(NvrtcLoading, LibraryOfOthersIsPassedOver) {
  const NvrtcResult result = NvrtcSearch({"libm.so.6", "libnvrtc-nowhere.so.12"}).proved();
  EXPECT_FALSE(result.nvrtc);
  EXPECT_EQ(result.reason, "NVRTC is not found, looked for libm.so.6 has no nvrtcVersion, libnvrtc-nowhere.so.12");
}

// NVRTC loads its builtins when it compiles, and its own directory is not searched for them.
TEST_F(NvrtcLoading, ToolkitsOutsideOfTheLoadersPathHaveTheirBuiltins) {
  const NvrtcResult result = NvrtcSearch({BONSAI_FAKE_TOOLKITS "99/lib64/libnvrtc.so.13"}).proved();
  ASSERT_TRUE(result.nvrtc) << result.reason;
  EXPECT_EQ(result.nvrtc->version, 13990);
}

TEST_F(NvrtcLoading, LibraryThatCannotCompileIsPassedOver) {
  const std::string half = BONSAI_FAKE_TOOLKITS "98/lib64/libnvrtc.so.13";
  const NvrtcResult none = NvrtcSearch({half, "libnvrtc-nowhere.so.12"}).proved();
  EXPECT_FALSE(none.nvrtc);
  EXPECT_EQ(none.reason, "NVRTC is not found, looked for " + half +
                             ": an empty kernel does not compile for compute_75: NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:"
                             " nvrtc: error: failed to open libnvrtc-builtins.so.13.98., libnvrtc-nowhere.so.12");
  const NvrtcResult next = NvrtcSearch({half, BONSAI_FAKE_TOOLKITS "99/lib64/libnvrtc.so.13"}).proved();
  ASSERT_TRUE(next.nvrtc) << next.reason;
  EXPECT_EQ(next.nvrtc->version, 13990);
}

// Kept kernels are named by what a library tells of itself, and nothing is compiled for that.
TEST_F(NvrtcLoading, FirstThatLoadsIsTakenUntilItHasToCompile) {
  NvrtcSearch search({"libnvrtc-nowhere.so.12", BONSAI_FAKE_TOOLKITS "98/lib64/libnvrtc.so.13",
                      BONSAI_FAKE_TOOLKITS "99/lib64/libnvrtc.so.13"});
  const NvrtcResult loaded = search.loaded();
  ASSERT_TRUE(loaded.nvrtc) << loaded.reason;
  EXPECT_EQ(loaded.nvrtc->version, 13980);
  EXPECT_EQ(loaded.nvrtc->architectures.front(), 75);
  EXPECT_EQ(search.loaded().nvrtc, loaded.nvrtc);
  const NvrtcResult proved = search.proved();
  ASSERT_TRUE(proved.nvrtc) << proved.reason;
  EXPECT_EQ(proved.nvrtc->version, 13990);
  EXPECT_EQ(search.proved().nvrtc, proved.nvrtc);
  EXPECT_EQ(search.loaded().nvrtc, proved.nvrtc);
}

TEST_F(NvrtcLoading, InstalledOneTellsItsVersionAndArchitectures) {
  const NvrtcResult result = NvrtcSearch(nvrtc_candidates(0)).proved();
  if (!result.nvrtc) GTEST_SKIP() << result.reason;
  EXPECT_GE(result.nvrtc->version, 12000);
  const std::vector<int> &known = result.nvrtc->architectures;
  EXPECT_TRUE(std::is_sorted(known.begin(), known.end()));
  EXPECT_TRUE(std::binary_search(known.begin(), known.end(), 90));
}

TEST(NvrtcStatus, FailureNamesCallAndError) {
  Nvrtc nvrtc;
  nvrtc.nvrtcGetErrorString = [](nvrtcResult) { return "NVRTC_ERROR_INVALID_INPUT"; };
  EXPECT_NO_THROW(nvrtc.check(NVRTC_SUCCESS, "nvrtcVersion"));
  try {
    nvrtc.check(NVRTC_ERROR_INVALID_INPUT, "nvrtcCreateProgram");
    FAIL() << "nothing was thrown";
  } catch (const plugin::Failure &failure) {
    EXPECT_EQ(failure.status(), BONSAI_INTERNAL);
    EXPECT_STREQ(failure.what(), "nvrtcCreateProgram: NVRTC_ERROR_INVALID_INPUT");
  }
}

}  // namespace
}  // namespace bonsai::cuda
