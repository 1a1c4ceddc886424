// Memory is freed once, wherever its owner goes, is counted while it lives, and says how much was asked for when there
// is none.
#include "plugins/cuda/driver/memory.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/plugins/cuda/driver/fake_functions.h"

namespace bonsai::cuda {
namespace {

class DriverMemory : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(fake_.alive.empty());
    EXPECT_EQ(fake_.bad_frees, 0);
    EXPECT_EQ(fake_.pushed, 0);
  }

  template <class Allocate>
  Failure failure_of(CUresult result, Allocate &&allocate) {
    fake_.result = result;
    fake_.failing = fake_.failing.empty() ? "cuMemAlloc_v2" : fake_.failing;
    try {
      allocate();
    } catch (const Failure &failure) {
      return failure;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Failure(BONSAI_OK, "");
  }

  FakeDriver fake_;
  Context context_{fake_.driver, 0};
  uint64_t account_ = 0;
};

TEST_F(DriverMemory, IsCountedWhileItLives) {
  {
    const DeviceBuffer a(context_, 100, "a", &account_);
    const PinnedBuffer b(context_, 10, "b", Pinned::kReadWrite, &account_);
    EXPECT_EQ(account_, 110u);
    EXPECT_EQ(a.bytes(), 100u);
    EXPECT_EQ(fake_.alive.size(), 2u);
  }
  EXPECT_EQ(account_, 0u);
}

TEST_F(DriverMemory, MovesWithItsCount) {
  DeviceBuffer a(context_, 100, "a", &account_);
  void *const address = a.data();
  DeviceBuffer b = std::move(a);
  EXPECT_EQ(b.data(), address);
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(a.bytes(), 0u);
  EXPECT_EQ(account_, 100u);
}

TEST_F(DriverMemory, AssignmentFreesWhatWasThere) {
  DeviceBuffer a(context_, 100, "a", &account_);
  a = DeviceBuffer(context_, 30, "b", &account_);
  EXPECT_EQ(account_, 30u);
  EXPECT_EQ(fake_.alive.size(), 1u);
  a = DeviceBuffer();
  EXPECT_EQ(account_, 0u);
  EXPECT_TRUE(fake_.alive.empty());
}

TEST_F(DriverMemory, NoBytesAreNoCall) {
  const DeviceBuffer a(context_, 0, "a", &account_);
  const PinnedBuffer b(context_, 0, "b");
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(b.data(), nullptr);
  EXPECT_TRUE(fake_.alive.empty());
}

TEST_F(DriverMemory, IsReadAsAnyType) {
  const DeviceBuffer a(context_, 100, "a");
  EXPECT_EQ(reinterpret_cast<char *>(a.as<float>(16)), static_cast<char *>(a.data()) + 16);
}

TEST_F(DriverMemory, WriteOnlyPinnedMemoryIsWriteCombined) {
  const PinnedBuffer a(context_, 10, "a", Pinned::kWriteOnly);
  EXPECT_EQ(fake_.calls.back(), "cuMemHostAlloc, write-combined");
}

TEST_F(DriverMemory, NoneLeftOnTheDevice) {
  const Failure failure =
      failure_of(CUDA_ERROR_OUT_OF_MEMORY, [&] { DeviceBuffer(context_, 5000, "KV blocks", &account_); });
  EXPECT_EQ(failure.status(), BONSAI_OUT_OF_MEMORY);
  EXPECT_STREQ(failure.what(),
               "device memory: 5000 bytes for KV blocks are not to be had, 1000 of 2000 bytes are free (cuMemAlloc_v2: "
               "CUDA_ERROR_OUT_OF_MEMORY: out of memory)");
  EXPECT_EQ(account_, 0u);
}

TEST_F(DriverMemory, NoneLeftToPin) {
  fake_.failing = "cuMemHostAlloc";
  const Failure failure = failure_of(CUDA_ERROR_OUT_OF_MEMORY, [&] { PinnedBuffer(context_, 5000, "staging"); });
  EXPECT_EQ(failure.status(), BONSAI_OUT_OF_MEMORY);
  EXPECT_STREQ(
      failure.what(),
      "host memory: 5000 pinned bytes for staging are not to be had (cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY: "
      "out of memory)");
}

TEST_F(DriverMemory, LostDeviceIsNotOutOfMemory) {
  const Failure failure = failure_of(CUDA_ERROR_ILLEGAL_ADDRESS, [&] { DeviceBuffer(context_, 5000, "KV blocks"); });
  EXPECT_EQ(failure.status(), BONSAI_DEVICE_LOST);
  EXPECT_STREQ(failure.what(), "cuMemAlloc_v2: CUDA_ERROR_ILLEGAL_ADDRESS: some text");
}

TEST_F(DriverMemory, IsFreedOfALostDevice) {
  DeviceBuffer a(context_, 100, "a", &account_);
  PinnedBuffer b(context_, 100, "b", Pinned::kReadWrite, &account_);
  fake_.result = CUDA_ERROR_ILLEGAL_ADDRESS;
  fake_.failing.clear();
  a = DeviceBuffer();
  b = PinnedBuffer();
  EXPECT_TRUE(fake_.alive.empty());
  EXPECT_EQ(account_, 0u);
}

TEST_F(DriverMemory, FreeAndTotalAreTheDevices) {
  EXPECT_EQ(context_.memory().free_bytes, 1000u);
  EXPECT_EQ(context_.memory().total_bytes, 2000u);
}

}  // namespace
}  // namespace bonsai::cuda
