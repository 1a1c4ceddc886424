// The driver's errors mean the right thing to the host: what can be gone on with, what cannot, and what was too large.
#include <gtest/gtest.h>

#include "tests/plugins/cuda/driver/fake_functions.h"

namespace bonsai::cuda {
namespace {

Failure failure_of(const Driver &driver, CUresult result) {
  try {
    driver.check(result, "cuStreamSynchronize");
  } catch (const Failure &failure) {
    return failure;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Failure(BONSAI_OK, "");
}

TEST(DriverStatus, SuccessIsNoFailure) {
  const FakeDriver fake;
  EXPECT_NO_THROW(fake.driver->check(CUDA_SUCCESS, "cuInit"));
  EXPECT_EQ(status_of(CUDA_SUCCESS), BONSAI_OK);
}

TEST(DriverStatus, ErrorsThatStayMeanThatTheDeviceIsLost) {
  // By number: drivers have them whatever the headers know.
  const int lost[] = {4, 46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 806, 810, 911, 999};
  for (const int result : lost) EXPECT_EQ(status_of(static_cast<CUresult>(result)), BONSAI_DEVICE_LOST) << result;
}

TEST(DriverStatus, MistakesOfOursAreInternal) {
  for (const int result : {1, 3, 101, 200, 201, 209, 222, 400, 500, 701, 720, 801, 900, 901, 12345}) {
    EXPECT_EQ(status_of(static_cast<CUresult>(result)), BONSAI_INTERNAL) << result;
  }
}

TEST(DriverStatus, MessageNamesCallErrorAndText) {
  const FakeDriver fake;
  const Failure failure = failure_of(*fake.driver, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(failure.status(), BONSAI_DEVICE_LOST);
  EXPECT_STREQ(failure.what(), "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS: some text");
}

TEST(DriverStatus, ErrorThatTheDriverDoesNotKnowIsANumber) {
  const FakeDriver fake;
  EXPECT_STREQ(failure_of(*fake.driver, static_cast<CUresult>(4242)).what(), "cuStreamSynchronize: CUDA error 4242");
}

TEST(DriverStatus, MemoryThatTheDriverItselfLacksIsTheDevices) {
  const FakeDriver fake;
  const Failure failure = failure_of(*fake.driver, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(failure.status(), BONSAI_OUT_OF_MEMORY);
  EXPECT_STREQ(failure.what(),
               "device memory, of a size that the driver does not say: cuStreamSynchronize: CUDA_ERROR_OUT_OF_MEMORY: "
               "out of memory");
}

TEST(DriverStatus, VersionsAreNamed) {
  EXPECT_EQ(version_name(12040), "12.4");
  EXPECT_EQ(version_name(13000), "13.0");
}

}  // namespace
}  // namespace bonsai::cuda
