// Memory and copies over the fake driver.
#include <algorithm>
#include <cstring>

#include "tests/plugins/cuda/fake_driver/fake_fixture.h"

namespace bonsai::fake {
namespace {

using FakeMemory = FakeDriver;

TEST_F(FakeMemory, CopiesThereAndBack) {
  const std::vector<uint32_t> in = {1, 2, 3, 4};
  std::vector<uint32_t> out(4);
  const CUdeviceptr a = allocate(16), b = allocate(16);
  EXPECT_EQ(cu->cuMemcpyHtoDAsync_v2(a, in.data(), 16, stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuMemcpyDtoDAsync_v2(b, a, 16, stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuMemsetD8Async(b + 4, 7, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuMemcpyDtoHAsync_v2(out.data(), b, 16, stream), CUDA_SUCCESS);
  EXPECT_EQ(out, (std::vector<uint32_t>{1, 0x07070707, 3, 4}));
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuMemFree_v2(b), CUDA_SUCCESS);
  EXPECT_EQ(control().misuse(), "");
}

TEST_F(FakeMemory, PinnedMemoryIsReadAndWrittenWhenTheStreamIsWaitedFor) {
  auto *pinned = allocate_pinned<uint32_t>(2);
  const CUdeviceptr a = allocate(4);
  pinned[0] = 5;
  pinned[1] = 6;
  EXPECT_EQ(cu->cuMemcpyHtoDAsync_v2(a, pinned, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuMemcpyDtoHAsync_v2(pinned + 1, a, 4, stream), CUDA_SUCCESS);
  pinned[0] = 7;  // too early: the copy has not been made yet
  EXPECT_EQ(pinned[1], 6u);
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(pinned[1], 7u);
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuMemFreeHost(pinned), CUDA_SUCCESS);
}

// Drivers are wont to copy little of it at once, and do not promise to.
TEST_F(FakeMemory, PageableMemoryIsReadWhenTheStreamIsWaitedFor) {
  uint32_t in = 5, out = 0;
  const CUdeviceptr a = allocate(4);
  EXPECT_EQ(cu->cuMemcpyHtoDAsync_v2(a, &in, 4, stream), CUDA_SUCCESS);
  in = 6;  // too early: it may be read yet
  EXPECT_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
  in = 7;
  EXPECT_EQ(cu->cuMemcpyDtoHAsync_v2(&out, a, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(out, 6u);
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
}

TEST_F(FakeMemory, NewMemoryHoldsGarbage) {
  uint32_t out = 0;
  const CUdeviceptr a = allocate(4);
  EXPECT_EQ(cu->cuMemcpyDtoHAsync_v2(&out, a, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(out, 0xFFFFFFFFu);
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
}

TEST_F(FakeMemory, CopiesBeyondAnAllocationAreMisuse) {
  std::vector<std::byte> host(32);
  const CUdeviceptr a = allocate(16), b = allocate(16);
  EXPECT_EQ(cu->cuMemcpyHtoDAsync_v2(a, host.data(), 17, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(),
            "cuMemcpyHtoDAsync_v2: 17 bytes of device memory are the destination, which has 16 bytes to the end of its "
            "allocation\n");
  EXPECT_EQ(cu->cuMemcpyDtoHAsync_v2(host.data(), a + 8, 9, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(),
            "cuMemcpyDtoHAsync_v2: 9 bytes of device memory are the source, which has 8 bytes to the end of its "
            "allocation\n");
  EXPECT_EQ(cu->cuMemsetD8Async(a + 16, 0, 1, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(), "cuMemsetD8Async: 1 bytes of device memory are the destination, which is not such memory\n");
  EXPECT_EQ(cu->cuMemcpyDtoDAsync_v2(b, reinterpret_cast<CUdeviceptr>(host.data()), 4, stream),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(), "cuMemcpyDtoDAsync_v2: 4 bytes of device memory are the source, which is not such memory\n");
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuMemFree_v2(b), CUDA_SUCCESS);
}

TEST_F(FakeMemory, OverlappingCopiesAreMisuse) {
  const CUdeviceptr a = allocate(16);
  EXPECT_EQ(cu->cuMemcpyDtoDAsync_v2(a + 4, a, 8, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(), "cuMemcpyDtoDAsync_v2: source and destination of a copy overlap\n");
  EXPECT_EQ(cu->cuMemcpyDtoDAsync_v2(a + 8, a, 8, stream), CUDA_SUCCESS);
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
}

TEST_F(FakeMemory, FreedMemoryIsNotUsedOrFreedAgain) {
  uint32_t host = 0;
  const CUdeviceptr a = allocate(16);
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
  const CUdeviceptr b = allocate(16);
  EXPECT_NE(a, b);
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(), "cuMemFree_v2: memory is freed, but it was freed before\n");
  EXPECT_EQ(cu->cuMemcpyHtoDAsync_v2(a, &host, 4, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(),
            "cuMemcpyHtoDAsync_v2: 4 bytes of device memory are the destination, which was freed before\n");
  EXPECT_EQ(control().alive().device_allocations, 1u);
  EXPECT_EQ(cu->cuMemFree_v2(b), CUDA_SUCCESS);
}

TEST_F(FakeMemory, OnlyWhatWasAllocatedIsFreed) {
  uint32_t host = 0;
  const CUdeviceptr a = allocate(16);
  EXPECT_EQ(cu->cuMemFree_v2(a + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(), "cuMemFree_v2: memory is freed, but it was not allocated here\n");
  EXPECT_EQ(cu->cuMemFreeHost(&host), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(), "cuMemFreeHost: memory is freed, but it was not allocated here\n");
  EXPECT_EQ(cu->cuMemFree_v2(0), CUDA_SUCCESS);  // as free(NULL)
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
}

TEST_F(FakeMemory, WritesBeyondPinnedMemoryShowWhenItIsFreed) {
  auto *pinned = allocate_pinned<char>(10);
  pinned[10] = 1;
  EXPECT_EQ(cu->cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(), "cuMemFreeHost: memory is freed, but something was written beyond its end\n");
}

TEST_F(FakeMemory, DeviceMemoryIsFinite) {
  size_t free_bytes = 0, total_bytes = 0;
  const CUdeviceptr a = allocate(1000);
  EXPECT_EQ(cu->cuMemGetInfo_v2(&free_bytes, &total_bytes), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes + 1000, total_bytes);
  CUdeviceptr b = 0;
  EXPECT_EQ(cu->cuMemAlloc_v2(&b, free_bytes + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(control().misuse(), "");
  EXPECT_EQ(cu->cuMemAlloc_v2(&b, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(take_misuse(), "cuMemAlloc_v2: no bytes are asked for\n");
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
}

using FakeMemoryDeathTest = FakeMemory;

TEST_F(FakeMemoryDeathTest, TheHostCannotTouchDeviceMemory) {
  const CUdeviceptr a = allocate(4);
  EXPECT_DEATH(*on_device<volatile uint32_t>(a) = 1, "");
  EXPECT_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
}

}  // namespace
}  // namespace bonsai::fake
