#include "plugins/cuda/driver/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "plugins/cuda/driver/symbol.h"

namespace bonsai::cuda {
namespace {

// Errors that cuda.h of CUDA 12.0 does not know yet.
constexpr int kContained = 226, kTensorMemoryLeak = 721;

// A name that cuda.h defines as another's would be typed as the one and looked up as the other.
#define BONSAI_MEANT(name) #name
#define BONSAI_CHECK_MEANT(name) \
  static_assert(std::string_view(#name) == BONSAI_MEANT(name), #name " is another function in this cuda.h");
BONSAI_CUDA_DRIVER_FUNCTIONS(BONSAI_CHECK_MEANT)
#undef BONSAI_CHECK_MEANT
#undef BONSAI_MEANT

// Fills the table; the name of the first function that the library lacks, or an empty string.
std::string fill(void *library, DriverFunctions &functions) {
  std::string missing;
#define BONSAI_FIND(name) find_symbol(library, #name, functions.name, missing);
  BONSAI_CUDA_DRIVER_FUNCTIONS(BONSAI_FIND)
#undef BONSAI_FIND
  find_symbol(library, "cuEventElapsedTime", functions.cuEventElapsedTime_v1, missing);
  return missing;
}

// What a user can do something about, where the driver sees no device; begins with "; " or is empty.
std::string why_no_device(const DriverSearch &search) {
  std::string why;
  if (access(search.control_node.c_str(), R_OK | W_OK) != 0) {
    why += fmt::format("; {}: {}", search.control_node, std::strerror(errno));
  }
  if (const char *visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    why += fmt::format("; CUDA_VISIBLE_DEVICES is '{}'", visible);
  }
  return why;
}

// One line if the driver is too old, else nothing. Asked before all else: an old driver lacks functions, too.
std::optional<std::string> refuse_version(const std::string &name, const DriverFunctions &functions, int &version) {
  if (!functions.cuDriverGetVersion) return fmt::format("{} is no NVIDIA driver: it has no cuDriverGetVersion", name);
  const CUresult result = functions.cuDriverGetVersion(&version);
  if (result == CUDA_ERROR_STUB_LIBRARY) {
    return fmt::format("{} is a CUDA toolkit's stub, for linking, expected the driver's own library", name);
  }
  if (result != CUDA_SUCCESS) return Driver(functions, 0).describe(result, "cuDriverGetVersion");
  if (version >= kOldestDriver) return std::nullopt;
  return fmt::format("the NVIDIA driver serves CUDA {}, expected at least {}", version_name(version),
                     version_name(kOldestDriver));
}

DriverResult start(const std::string &name, void *library, const DriverSearch &search) {
  DriverFunctions functions;
  const std::string missing = fill(library, functions);
  int version = 0;
  if (const auto reason = refuse_version(name, functions, version)) return {nullptr, *reason};
  if (!missing.empty()) {
    return {nullptr, fmt::format("{} has no {}, expected a driver for CUDA {} or newer", name, missing,
                                 version_name(kOldestDriver))};
  }
  auto driver = std::make_shared<const Driver>(functions, version);
  const CUresult result = driver->cuInit(0);
  if (result == CUDA_SUCCESS) return {driver, {}};
  const bool sees_none = result == CUDA_ERROR_NO_DEVICE;
  return {nullptr, driver->describe(result, "cuInit") + (sees_none ? why_no_device(search) : std::string())};
}

}  // namespace

std::string version_name(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

bonsai_status status_of(CUresult result) {
  switch (static_cast<int>(result)) {
    case CUDA_SUCCESS:
      return BONSAI_OK;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return BONSAI_OUT_OF_MEMORY;
    // After these every call on the context fails, until the process or the driver is started anew.
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case kContained:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case kTensorMemoryLeak:
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return BONSAI_DEVICE_LOST;
    default:
      return BONSAI_INTERNAL;
  }
}

std::string Driver::describe(CUresult result, const char *call) const {
  const char *name = nullptr, *text = nullptr;
  if (!cuGetErrorName || cuGetErrorName(result, &name) != CUDA_SUCCESS) name = nullptr;
  if (!cuGetErrorString || cuGetErrorString(result, &text) != CUDA_SUCCESS) text = nullptr;
  if (!name) return fmt::format("{}: CUDA error {}", call, static_cast<int>(result));
  return fmt::format("{}: {}: {}", call, name, text ? text : "no description");
}

void Driver::fail(CUresult result, const char *call) const {
  const bonsai_status status = status_of(result);
  const char *kind = status == BONSAI_OUT_OF_MEMORY ? "device memory, of a size that the driver does not say: " : "";
  throw Failure(status, kind + describe(result, call));
}

DriverResult load_driver(const DriverSearch &search) {
  std::string reason = "no NVIDIA driver";
  for (const std::string &name : search.libraries) {
    if (void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return start(name, library, search);
    reason += fmt::format(": {}", dlerror());
  }
  return {nullptr, reason};
}

}  // namespace bonsai::cuda
