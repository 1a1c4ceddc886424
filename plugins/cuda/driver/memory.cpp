#include "plugins/cuda/driver/memory.h"

namespace bonsai::cuda {
namespace {

[[noreturn]] void fail_on_device(const Context &context, CUresult result, size_t bytes, const char *purpose) {
  const Driver &driver = context.driver();
  const std::string description = driver.describe(result, "cuMemAlloc_v2");
  if (result != CUDA_ERROR_OUT_OF_MEMORY) throw Failure(status_of(result), description);
  size_t free_bytes = 0, total_bytes = 0;
  const bool is_known = driver.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS;
  if (!is_known) free_bytes = total_bytes = 0;
  throw Failure(BONSAI_OUT_OF_MEMORY,
                fmt::format("device memory: {} bytes for {} are not to be had, {} of {} bytes are free ({})", bytes,
                            purpose, free_bytes, total_bytes, description));
}

[[noreturn]] void fail_on_host(const Context &context, CUresult result, size_t bytes, const char *purpose) {
  const std::string description = context.driver().describe(result, "cuMemHostAlloc");
  if (result != CUDA_ERROR_OUT_OF_MEMORY) throw Failure(status_of(result), description);
  throw Failure(BONSAI_OUT_OF_MEMORY,
                fmt::format("host memory: {} pinned bytes for {} are not to be had ({})", bytes, purpose, description));
}

void *allocate_on_device(const Context &context, size_t bytes, const char *purpose) {
  if (bytes == 0) return nullptr;
  const CurrentContext current(context);
  CUdeviceptr address = 0;
  const CUresult result = context.driver().cuMemAlloc_v2(&address, bytes);
  if (result != CUDA_SUCCESS) fail_on_device(context, result, bytes, purpose);
  return reinterpret_cast<void *>(address);
}

void *allocate_pinned(const Context &context, size_t bytes, const char *purpose, Pinned use) {
  if (bytes == 0) return nullptr;
  const CurrentContext current(context);
  const unsigned flags = use == Pinned::kWriteOnly ? CU_MEMHOSTALLOC_WRITECOMBINED : 0;
  void *memory = nullptr;
  const CUresult result = context.driver().cuMemHostAlloc(&memory, bytes, flags);
  if (result != CUDA_SUCCESS) fail_on_host(context, result, bytes, purpose);
  return memory;
}

}  // namespace

Memory::Memory(void *memory, const Release &release) : memory_(memory, release) {
  if (memory && release.account) *release.account += release.bytes;
}

void Memory::Release::operator()(void *memory) const noexcept {
  context->release([&](const Driver &driver) {
    if (kind == Kind::kDevice) {
      driver.cuMemFree_v2(reinterpret_cast<CUdeviceptr>(memory));
    } else {
      driver.cuMemFreeHost(memory);
    }
  });
  if (account) *account -= bytes;
}

DeviceBuffer::DeviceBuffer(const Context &context, size_t bytes, const char *purpose, uint64_t *account)
    : Memory(allocate_on_device(context, bytes, purpose), {&context, Kind::kDevice, bytes, account}) {}

PinnedBuffer::PinnedBuffer(const Context &context, size_t bytes, const char *purpose, Pinned use, uint64_t *account)
    : Memory(allocate_pinned(context, bytes, purpose, use), {&context, Kind::kPinned, bytes, account}) {}

}  // namespace bonsai::cuda
