#include "tests/plugins/cuda/driver/fake_functions.h"

#include <cstring>

namespace bonsai::cuda {
namespace {

FakeDriver *fake = nullptr;
uintptr_t next_handle = 0x1000;

// Notes a call, and says how it ends.
CUresult called(const char *name) {
  fake->calls.emplace_back(name);
  const bool fails = fake->result != CUDA_SUCCESS && (fake->failing.empty() || fake->failing == name);
  if (!fails || fake->failures == 0) return CUDA_SUCCESS;
  --fake->failures;
  return fake->result;
}

template <class T>
CUresult make(const char *name, T *out) {
  const CUresult result = fake->pushed > 0 ? called(name) : CUDA_ERROR_INVALID_CONTEXT;
  if (result != CUDA_SUCCESS) return result;
  next_handle += 0x100;
  fake->alive.insert(next_handle);
  *out = (T)next_handle;
  return result;
}

template <class T>
CUresult end(const char *name, T handle) {
  if (fake->pushed == 0 || fake->alive.erase((uintptr_t)handle) == 0) ++fake->bad_frees;
  return called(name);
}

CUresult name_of(CUresult result, const char **name) {
  switch (static_cast<int>(result)) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return CUDA_SUCCESS;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_VALUE:
      *name = "CUDA_ERROR_INVALID_VALUE";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      *name = "CUDA_ERROR_NO_BINARY_FOR_GPU";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NOT_FOUND:
      *name = "CUDA_ERROR_NOT_FOUND";
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult text_of(CUresult result, const char **text) {
  *text = result == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "some text";
  return CUDA_SUCCESS;
}

CUresult load_module(CUmodule *module, const void *image, unsigned n, CUjit_option *options, void **values) {
  const std::string_view text = static_cast<const char *>(image);
  const bool is_refused = !fake->refused_image.empty() && text.starts_with(fake->refused_image);
  if (!is_refused) return make("cuModuleLoadDataEx", module);
  for (unsigned i = 0; i < n; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) std::strcpy(static_cast<char *>(values[i]), "ptxas fatal\nmore");
  }
  called("cuModuleLoadDataEx");
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

CUresult launch_kernel(const CUlaunchConfig *config, CUfunction, void **parameters, void **) {
  fake->launched = *config;
  for (unsigned i = 0; i < config->numAttrs; ++i) fake->launched_attributes[i] = config->attrs[i];
  const auto *bytes = static_cast<const unsigned char *>(parameters[0]);
  fake->launched_arguments.assign(bytes, bytes + fake->arguments_bytes);
  return called("cuLaunchKernelEx");
}

void fill_contexts(DriverFunctions &functions) {
  functions.cuGetErrorName = name_of;
  functions.cuGetErrorString = text_of;
  functions.cuDevicePrimaryCtxRetain = [](CUcontext *context, CUdevice) {
    const CUresult result = called("cuDevicePrimaryCtxRetain");
    if (result != CUDA_SUCCESS) return result;
    ++fake->retained;
    *context = reinterpret_cast<CUcontext>(uintptr_t{0x77});
    return result;
  };
  functions.cuDevicePrimaryCtxRelease_v2 = [](CUdevice) {
    return --fake->retained, called("cuDevicePrimaryCtxRelease");
  };
  functions.cuCtxPushCurrent_v2 = [](CUcontext) { return ++fake->pushed, CUDA_SUCCESS; };
  functions.cuCtxPopCurrent_v2 = [](CUcontext *) { return --fake->pushed, CUDA_SUCCESS; };
}

void fill_memory(DriverFunctions &functions) {
  functions.cuMemGetInfo_v2 = [](size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = 1000, *total_bytes = 2000;
    return called("cuMemGetInfo_v2");
  };
  functions.cuMemAlloc_v2 = [](CUdeviceptr *address, size_t) { return make("cuMemAlloc_v2", address); };
  functions.cuMemFree_v2 = [](CUdeviceptr address) { return end("cuMemFree_v2", address); };
  functions.cuMemHostAlloc = [](void **memory, size_t, unsigned flags) {
    return make(flags & CU_MEMHOSTALLOC_WRITECOMBINED ? "cuMemHostAlloc, write-combined" : "cuMemHostAlloc", memory);
  };
  functions.cuMemFreeHost = [](void *memory) { return end("cuMemFreeHost", memory); };
  functions.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr, const void *, size_t, CUstream) {
    return called("cuMemcpyHtoDAsync_v2");
  };
  functions.cuMemcpyDtoHAsync_v2 = [](void *, CUdeviceptr, size_t, CUstream) { return called("cuMemcpyDtoHAsync_v2"); };
  functions.cuMemcpyDtoDAsync_v2 = [](CUdeviceptr, CUdeviceptr, size_t, CUstream) {
    return called("cuMemcpyDtoDAsync_v2");
  };
  functions.cuMemsetD8Async = [](CUdeviceptr, unsigned char, size_t, CUstream) { return called("cuMemsetD8Async"); };
}

void fill_streams(DriverFunctions &functions) {
  functions.cuStreamCreateWithPriority = [](CUstream *stream, unsigned, int) {
    return make("cuStreamCreateWithPriority", stream);
  };
  functions.cuStreamDestroy_v2 = [](CUstream stream) { return end("cuStreamDestroy_v2", stream); };
  functions.cuStreamSynchronize = [](CUstream) { return called("cuStreamSynchronize"); };
  functions.cuEventCreate = [](CUevent *event, unsigned) { return make("cuEventCreate", event); };
  functions.cuEventRecord = [](CUevent, CUstream) { return called("cuEventRecord"); };
  functions.cuEventSynchronize = [](CUevent) { return called("cuEventSynchronize"); };
  functions.cuEventDestroy_v2 = [](CUevent event) { return end("cuEventDestroy_v2", event); };
  functions.cuEventElapsedTime_v1 = [](float *milliseconds, CUevent, CUevent) {
    *milliseconds = 1500;
    return called("cuEventElapsedTime");
  };
}

void fill_graphs(DriverFunctions &functions) {
  functions.cuStreamBeginCapture_v2 = [](CUstream, CUstreamCaptureMode) {
    fake->is_capturing = true;
    return called("cuStreamBeginCapture_v2");
  };
  functions.cuStreamEndCapture = [](CUstream, CUgraph *graph) {
    fake->is_capturing = false;
    *graph = nullptr;
    return make("cuStreamEndCapture", graph);
  };
  functions.cuGraphInstantiateWithFlags = [](CUgraphExec *exec, CUgraph, unsigned long long) {
    return make("cuGraphInstantiateWithFlags", exec);
  };
  functions.cuGraphUpload = [](CUgraphExec, CUstream) { return called("cuGraphUpload"); };
  functions.cuGraphLaunch = [](CUgraphExec, CUstream) { return called("cuGraphLaunch"); };
  functions.cuGraphDestroy = [](CUgraph graph) { return end("cuGraphDestroy", graph); };
  functions.cuGraphExecDestroy = [](CUgraphExec exec) { return end("cuGraphExecDestroy", exec); };
}

void fill_modules(DriverFunctions &functions) {
  functions.cuModuleLoadDataEx = load_module;
  functions.cuModuleUnload = [](CUmodule module) { return end("cuModuleUnload", module); };
  functions.cuModuleGetFunction = [](CUfunction *function, CUmodule, const char *) {
    *function = reinterpret_cast<CUfunction>(uintptr_t{0x55});
    return called("cuModuleGetFunction");
  };
  functions.cuFuncGetAttribute = [](int *value, CUfunction_attribute attribute, CUfunction) {
    *value = 100 + static_cast<int>(attribute);
    return called("cuFuncGetAttribute");
  };
  functions.cuFuncSetAttribute = [](CUfunction, CUfunction_attribute, int) { return called("cuFuncSetAttribute"); };
  functions.cuLaunchKernelEx = launch_kernel;
}

}  // namespace

FakeDriver::FakeDriver() {
  DriverFunctions functions;
  fill_contexts(functions);
  fill_memory(functions);
  fill_streams(functions);
  fill_graphs(functions);
  fill_modules(functions);
  driver = std::make_shared<const Driver>(functions, 12040);
  fake = this;
}

FakeDriver::~FakeDriver() { fake = nullptr; }

}  // namespace bonsai::cuda
