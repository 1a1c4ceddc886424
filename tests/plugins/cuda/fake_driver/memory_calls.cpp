// Memory, copies and fills.
#include <cstring>

#include "tests/plugins/cuda/fake_driver/work.h"

using namespace bonsai::fake;

namespace {

void *pointer(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

// Memory that goes may still be in use; drivers wait, too. What fails then is told by the calls that wait for it.
void settle(World &world) {
  if (world.broken != CUDA_SUCCESS || context_stack().empty()) return;
  try {
    run_all(world, current_context());
  } catch (const Refusal &refusal) {
    world.suffer(refusal.result);
  }
}

void free_in(World &world, Arena &arena, void *address) {
  if (!address) return;
  settle(world);
  if (const char *problem = arena.free(address)) {
    throw Misuse{CUDA_ERROR_INVALID_VALUE, fmt::format("memory is freed, but {}", problem)};
  }
}

void submit_copy(World &world, CUstream handle, Work work) {
  Stream &stream = find_stream(world, handle);
  check_addresses(world, work);
  submit(world, stream, std::move(work));
}

// A recording cannot hold what pageable memory holds now.
void refuse_pageable(const Stream &stream) {
  if (!stream.capture) return;
  stream.capture->is_invalid = true;
  throw Misuse{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a copy from or to pageable memory is captured"};
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  return call(__func__, kNeedsContext, [&](World &world) {
    *total_bytes = world.settings.memory_bytes;
    *free_bytes = world.settings.memory_bytes - world.device_memory.bytes();
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  return call(__func__, kNeedsContext | kNotWhileCapturing, [&](World &world) {
    if (bytes == 0) throw Misuse{CUDA_ERROR_INVALID_VALUE, "no bytes are asked for"};
    if (bytes > world.settings.memory_bytes - world.device_memory.bytes()) throw Refusal{CUDA_ERROR_OUT_OF_MEMORY};
    *address = reinterpret_cast<CUdeviceptr>(world.device_memory.allocate(bytes));
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return call(__func__, kNeedsContext | kReleases | kNotWhileCapturing,
              [&](World &world) { free_in(world, world.device_memory, pointer(address)); });
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  return call(__func__, kNeedsContext | kNotWhileCapturing, [&](World &world) {
    if (bytes == 0) throw Misuse{CUDA_ERROR_INVALID_VALUE, "no bytes are asked for"};
    *memory = world.pinned_memory.allocate(bytes);
  });
}

CUresult cuMemFreeHost(void *memory) {
  return call(__func__, kNeedsContext | kReleases | kNotWhileCapturing,
              [&](World &world) { free_in(world, world.pinned_memory, memory); });
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream handle) {
  return call(__func__, kNeedsContext, [&](World &world) {
    Work work{.kind = Work::Kind::kUpload, .to = pointer(to), .from = from, .bytes = bytes};
    check_addresses(world, work);
    if (!world.pinned_memory.overlaps(from, bytes)) refuse_pageable(find_stream(world, handle));
    submit_copy(world, handle, std::move(work));
  });
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream handle) {
  return call(__func__, kNeedsContext, [&](World &world) {
    Stream &stream = find_stream(world, handle);
    const bool is_pageable = !world.pinned_memory.overlaps(to, bytes);
    if (is_pageable) refuse_pageable(stream);
    submit_copy(world, handle, {.kind = Work::Kind::kDownload, .to = to, .from = pointer(from), .bytes = bytes});
    if (is_pageable) run_until(world, stream, stream.submitted);
  });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  return call(__func__, kNeedsContext, [&](World &world) {
    submit_copy(world, handle, {.kind = Work::Kind::kCopy, .to = pointer(to), .from = pointer(from), .bytes = bytes});
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream handle) {
  return call(__func__, kNeedsContext, [&](World &world) {
    submit_copy(world, handle, {.kind = Work::Kind::kFill, .to = pointer(to), .bytes = bytes, .value = value});
  });
}

}  // extern "C"
