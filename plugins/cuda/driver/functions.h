// Every function of the NVIDIA driver that Bonsai calls, as a table of pointers: libcuda.so.1 is never linked.
#pragma once

#include <cuda.h>

namespace bonsai::cuda {

// The functions, by the names under which libcuda.so.1 exports them. All are in drivers for CUDA 12.0 and newer, with
// these very signatures; cuda.h's macros would pick later versions of some (cuEventElapsedTime_v2 came with 12.8).
#define BONSAI_CUDA_DRIVER_FUNCTIONS(X) \
  X(cuInit)                             \
  X(cuDriverGetVersion)                 \
  X(cuGetErrorName)                     \
  X(cuGetErrorString)                   \
  X(cuDeviceGetCount)                   \
  X(cuDeviceGet)                        \
  X(cuDeviceGetName)                    \
  X(cuDeviceGetAttribute)               \
  X(cuDeviceTotalMem_v2)                \
  X(cuDevicePrimaryCtxRetain)           \
  X(cuDevicePrimaryCtxRelease_v2)       \
  X(cuCtxPushCurrent_v2)                \
  X(cuCtxPopCurrent_v2)                 \
  X(cuMemGetInfo_v2)                    \
  X(cuMemAlloc_v2)                      \
  X(cuMemFree_v2)                       \
  X(cuMemHostAlloc)                     \
  X(cuMemFreeHost)                      \
  X(cuMemcpyHtoDAsync_v2)               \
  X(cuMemcpyDtoHAsync_v2)               \
  X(cuMemcpyDtoDAsync_v2)               \
  X(cuMemsetD8Async)                    \
  X(cuStreamCreateWithPriority)         \
  X(cuStreamDestroy_v2)                 \
  X(cuStreamSynchronize)                \
  X(cuStreamBeginCapture_v2)            \
  X(cuStreamEndCapture)                 \
  X(cuEventCreate)                      \
  X(cuEventRecord)                      \
  X(cuEventSynchronize)                 \
  X(cuEventDestroy_v2)                  \
  X(cuModuleLoadDataEx)                 \
  X(cuModuleUnload)                     \
  X(cuModuleGetFunction)                \
  X(cuFuncGetAttribute)                 \
  X(cuFuncSetAttribute)                 \
  X(cuLaunchKernelEx)                   \
  X(cuGraphInstantiateWithFlags)        \
  X(cuGraphUpload)                      \
  X(cuGraphLaunch)                      \
  X(cuGraphDestroy)                     \
  X(cuGraphExecDestroy)

struct DriverFunctions {
#define BONSAI_DECLARE(name) decltype(&::name) name = nullptr;
  BONSAI_CUDA_DRIVER_FUNCTIONS(BONSAI_DECLARE)
#undef BONSAI_DECLARE
  // Apart: newer headers may mean its second version by this name.
  CUresult(CUDAAPI *cuEventElapsedTime_v1)(float *milliseconds, CUevent start, CUevent end) = nullptr;
};

}  // namespace bonsai::cuda
