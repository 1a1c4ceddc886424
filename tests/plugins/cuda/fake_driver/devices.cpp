// Starting, errors, devices and their primary contexts.

#include "tests/plugins/cuda/fake_driver/work.h"

using namespace bonsai::fake;

namespace {

struct ErrorText {
  CUresult result;
  const char *name, *text;
};

#define BONSAI_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    BONSAI_ERROR(CUDA_SUCCESS, "no error"),
    BONSAI_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    BONSAI_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    BONSAI_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    BONSAI_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    BONSAI_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    BONSAI_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    BONSAI_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    BONSAI_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    BONSAI_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    BONSAI_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    BONSAI_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    BONSAI_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    BONSAI_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    BONSAI_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    BONSAI_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    BONSAI_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    BONSAI_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    BONSAI_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    BONSAI_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    BONSAI_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    BONSAI_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    BONSAI_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    BONSAI_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                 "operation would make the legacy stream depend on a capturing "
                 "blocking stream"),
    BONSAI_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                 "attempt to terminate a thread-local capture sequence from "
                 "another thread"),
    BONSAI_ERROR(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
    BONSAI_ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                 "the graph update was not performed because it included changes "
                 "which violated constraints specific to instantiated graph "
                 "update"),
    BONSAI_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef BONSAI_ERROR

const ErrorText *find_error(CUresult result) {
  for (const ErrorText &error : kErrors) {
    if (error.result == result) return &error;
  }
  return nullptr;
}

void require_device(const World &world, CUdevice device) {
  if (device < 0 || device >= world.settings.devices) {
    throw Misuse{CUDA_ERROR_INVALID_DEVICE, fmt::format("device {}, of {}", device, world.settings.devices)};
  }
}

int attribute(const Settings &settings, CUdevice_attribute which) {
  constexpr int kCacheBytes = 4 << 20, kSharedBytes = 48 << 10;
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return settings.capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return settings.capability % 10;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return settings.multiprocessors;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return kCacheBytes;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return kSharedBytes;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return static_cast<int>(shared_bytes_of_block(settings.capability));
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return static_cast<int>(shared_bytes_of_multiprocessor(settings.capability));
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return static_cast<int>(bonsai::emulation::kMostBlockThreads);
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      return 0;
    default:
      throw Misuse{CUDA_ERROR_INVALID_VALUE,
                   fmt::format("the fake driver does not know attribute {}", static_cast<int>(which))};
  }
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned flags) {
  return call(__func__, kBeforeInit, [&](World &world) {
    if (flags != 0) throw Misuse{CUDA_ERROR_INVALID_VALUE, fmt::format("flags {}, expected 0", flags)};
    if (world.settings.devices == 0) throw Refusal{CUDA_ERROR_NO_DEVICE};
    world.is_initialised = true;
  });
}

CUresult cuDriverGetVersion(int *version) {
  return call(__func__, kBeforeInit | kWhenBroken, [&](World &world) { *version = world.settings.driver_version; });
}

CUresult cuGetErrorName(CUresult result, const char **name) {
  const ErrorText *error = find_error(result);
  *name = error ? error->name : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult result, const char **text) {
  const ErrorText *error = find_error(result);
  *text = error ? error->text : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count) {
  return call(__func__, kWhenBroken, [&](World &world) { *count = world.settings.devices; });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return call(__func__, kWhenBroken, [&](World &world) {
    require_device(world, ordinal);
    *device = ordinal;
  });
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
  return call(__func__, kWhenBroken, [&](World &world) {
    require_device(world, device);
    const size_t n = world.settings.name.copy(name, static_cast<size_t>(bytes) - 1);
    name[n] = '\0';
  });
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  return call(__func__, kWhenBroken, [&](World &world) {
    require_device(world, device);
    *value = attribute(world.settings, which);
  });
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  return call(__func__, kWhenBroken, [&](World &world) {
    require_device(world, device);
    *bytes = world.settings.memory_bytes;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice device) {
  return call(__func__, 0, [&](World &world) {
    require_device(world, device);
    Context &context = world.contexts[static_cast<size_t>(device)];
    context.device = device;
    ++context.retained;
    *handle = reinterpret_cast<CUcontext>(&context);
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return call(__func__, kReleases | kWhenBroken, [&](World &world) {
    require_device(world, device);
    Context &context = world.contexts[static_cast<size_t>(device)];
    if (context.retained == 0) throw Misuse{CUDA_ERROR_INVALID_CONTEXT, "the context is not retained"};
    --context.retained;
    const std::string alive = world.alive();
    if (world.settings.devices == 1 && context.retained == 0 && !alive.empty()) {
      throw Misuse{CUDA_SUCCESS, "the context goes, and with it " + alive};
    }
  });
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return call(__func__, kWhenBroken | kPushes, [&](World &world) {
    for (Context &context : world.contexts) {
      if (reinterpret_cast<CUcontext>(&context) != handle) continue;
      if (context.retained == 0) throw Misuse{CUDA_ERROR_INVALID_CONTEXT, "the context was released"};
      context_stack().push_back(&context);
      ++world.pushed;
      return;
    }
    throw Misuse{CUDA_ERROR_INVALID_CONTEXT, "the context is none of ours"};
  });
}

CUresult cuCtxPopCurrent_v2(CUcontext *handle) {
  return call(__func__, kReleases | kWhenBroken, [&](World &world) {
    if (context_stack().empty()) throw Misuse{CUDA_ERROR_INVALID_CONTEXT, "no context is current"};
    if (handle) *handle = reinterpret_cast<CUcontext>(&current_context());
    context_stack().pop_back();
    --world.pushed;
  });
}

}  // extern "C"
