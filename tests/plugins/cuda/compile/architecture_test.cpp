// A device gets code for itself, and one that is newer than the compiler gets the newest code that it can run.
#include "plugins/cuda/compile/architecture.h"

#include <gtest/gtest.h>

#include <array>

#include "plugins/common/failure.h"

namespace bonsai::cuda {
namespace {

constexpr std::array<int, 8> kKnown = {75, 80, 86, 87, 89, 90, 100, 120};

TEST(Architectures, DevicesThatNvrtcKnowsGetTheirOwn) {
  for (const int capability : {75, 80, 86, 87, 89, 100, 120}) {
    const Architecture architecture = choose_architecture(capability, kKnown);
    EXPECT_EQ(architecture.name, "sm_" + std::to_string(capability));
    EXPECT_TRUE(architecture.is_real());
  }
}

TEST(Architectures, HopperGetsWhatItAloneHas) { EXPECT_EQ(choose_architecture(90, kKnown).name, "sm_90a"); }

TEST(Architectures, NewerDevicesGetTheNewestPtxThatTheyCanRun) {
  EXPECT_EQ(choose_architecture(103, kKnown).name, "compute_100");
  EXPECT_EQ(choose_architecture(110, kKnown).name, "compute_100");
  EXPECT_EQ(choose_architecture(130, kKnown).name, "compute_120");
  EXPECT_FALSE(choose_architecture(130, kKnown).is_real());
}

TEST(Architectures, OrderOfTheKnownDoesNotMatter) {
  EXPECT_EQ(choose_architecture(103, std::array{120, 75, 100, 90}).name, "compute_100");
}

TEST(Architectures, WithoutACompilerItIsTheDevicesOwn) { EXPECT_EQ(choose_architecture(90, {}).name, "sm_90a"); }

TEST(Architectures, OwnCodeGoesBeforePtxOfEverOlderDevices) {
  const std::vector<Architecture> usable = usable_architectures(89);
  ASSERT_EQ(usable.size(), 11u);
  EXPECT_EQ(usable.front().name, "sm_89");
  EXPECT_EQ(usable[1].name, "compute_89");
  EXPECT_EQ(usable[2].name, "compute_88");
  EXPECT_EQ(usable.back().name, "compute_80") << "code for 7.5 multiplies no single bits";
  EXPECT_EQ(usable_architectures(75).back().name, "compute_75");
}

// What is compiled for older devices waits for no kernel, and kernels overlap there.
TEST(Architectures, DevicesWhoseKernelsOverlapTakeNoCodeThatDoesNotWait) {
  const std::vector<Architecture> hopper = usable_architectures(90), blackwell = usable_architectures(100);
  ASSERT_EQ(hopper.size(), 2u);
  EXPECT_EQ(hopper[0].name, "sm_90a");
  EXPECT_EQ(hopper[1].name, "compute_90");
  EXPECT_EQ(blackwell.back().name, "compute_90");
}

TEST(Architectures, DeviceThatIsTooOldForTheCompilerIsRefused) {
  try {
    choose_architecture(75, std::array{80, 90});
    FAIL() << "nothing was thrown";
  } catch (const plugin::Failure &failure) {
    EXPECT_EQ(failure.status(), BONSAI_UNSUPPORTED);
    EXPECT_STREQ(failure.what(), "NVRTC compiles for no device as old as sm_75: use an older one");
  }
}

}  // namespace
}  // namespace bonsai::cuda
