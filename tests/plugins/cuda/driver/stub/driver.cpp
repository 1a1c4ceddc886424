// A libcuda.so.1 that goes as far as finding devices. What it says comes from the environment, so that one library
// stands for every driver that there may be:
//   STUB_VERSION (12040)  STUB_INIT (0)  STUB_CAPABILITIES ("90"; one device each)
//   STUB_BROKEN (a function that fails)  STUB_ERROR (999; how it does)
//   STUB_BROKEN_DEVICE (every; the one for which cuDeviceGetName fails, if that does)
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define STUB_EXPORT __attribute__((visibility("default")))

namespace {

const char *setting(const char *name, const char *otherwise) {
  const char *value = std::getenv(name);
  return value ? value : otherwise;
}

CUresult result_of(const char *function) {
  const bool is_broken = std::strcmp(setting("STUB_BROKEN", ""), function) == 0;
  return is_broken ? static_cast<CUresult>(std::atoi(setting("STUB_ERROR", "999"))) : CUDA_SUCCESS;
}

// The capability of a device, 0 behind the last.
int capability(int device) {
  const char *text = setting("STUB_CAPABILITIES", "90");
  for (; device > 0 && text; --device) {
    text = std::strchr(text, ',');
    if (text) ++text;
  }
  return text ? std::atoi(text) : 0;
}

}  // namespace

extern "C" {

STUB_EXPORT CUresult cuDriverGetVersion(int *version) {
  *version = std::atoi(setting("STUB_VERSION", "12040"));
  return result_of("cuDriverGetVersion");
}

STUB_EXPORT CUresult cuInit(unsigned) { return static_cast<CUresult>(std::atoi(setting("STUB_INIT", "0"))); }

STUB_EXPORT CUresult cuGetErrorName(CUresult result, const char **name) {
  switch (static_cast<int>(result)) {
    case 100:
      *name = "CUDA_ERROR_NO_DEVICE";
      return CUDA_SUCCESS;
    case 803:
      *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
      return CUDA_SUCCESS;
    case 999:
      *name = "CUDA_ERROR_UNKNOWN";
      return CUDA_SUCCESS;
    default:
      *name = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

STUB_EXPORT CUresult cuGetErrorString(CUresult result, const char **text) {
  switch (static_cast<int>(result)) {
    case 100:
      *text = "no CUDA-capable device is detected";
      return CUDA_SUCCESS;
    case 803:
      *text = "system has unsupported display driver / cuda driver combination";
      return CUDA_SUCCESS;
    case 999:
      *text = "unknown error";
      return CUDA_SUCCESS;
    default:
      *text = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

STUB_EXPORT CUresult cuDeviceGetCount(int *count) {
  for (*count = 0; capability(*count) > 0;) ++*count;
  return result_of("cuDeviceGetCount");
}

STUB_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = 10 + ordinal;
  return CUDA_SUCCESS;
}

STUB_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  std::snprintf(name, static_cast<size_t>(length), "Stub %d", device - 10);
  const char *broken = setting("STUB_BROKEN_DEVICE", "");
  return *broken && std::atoi(broken) != device - 10 ? CUDA_SUCCESS : result_of("cuDeviceGetName");
}

STUB_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  *bytes = size_t{80} << 30;
  return CUDA_SUCCESS;
}

STUB_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = capability(device - 10) / 10;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = capability(device - 10) % 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 227 << 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = 228 << 10;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
