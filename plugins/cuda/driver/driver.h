// The NVIDIA driver, found at run time: its functions, its version, and how its errors become failures.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugins/common/failure.h"
#include "plugins/cuda/driver/functions.h"

namespace bonsai::cuda {

using plugin::Failure;
using plugin::refuse;
using plugin::reject;

// Drivers older than this are refused: 12.0 brought cuLaunchKernelEx and the graph functions in their present form.
inline constexpr int kOldestDriver = 12000;

// Immutable once loaded. Calls read as the driver's manual does: driver.check(driver.cuStreamSynchronize(stream),
// "cuStreamSynchronize").
class Driver : public DriverFunctions {
 public:
  Driver(const DriverFunctions &functions, int version) : DriverFunctions(functions), version_(version) {}

  // The newest CUDA that the driver serves: 1000 major + 10 minor.
  int version() const { return version_; }

  // Throws unless `result` is CUDA_SUCCESS: OUT_OF_MEMORY, DEVICE_LOST for errors after which no call on the context
  // succeeds any more, else INTERNAL. The message names the call, the error and the driver's text for it.
  void check(CUresult result, const char *call) const {
    if (result != CUDA_SUCCESS) fail(result, call);
  }
  [[noreturn]] void fail(CUresult result, const char *call) const;

  // "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
  std::string describe(CUresult result, const char *call) const;

 private:
  int version_;
};

// The status that a driver's error means to the host.
bonsai_status status_of(CUresult result);

// "12.4" of 12040.
std::string version_name(int version);

// Where the driver is looked for; tests name stand-ins.
struct DriverSearch {
  std::vector<std::string> libraries = {"libcuda.so.1"};  // tried in order, as dlopen takes them
  std::string control_node = "/dev/nvidiactl";            // explains a driver that sees no device
};

// The driver, or one line that says why there is none.
struct DriverResult {
  std::shared_ptr<const Driver> driver;  // initialised; null: see reason
  std::string reason;
};

// Loads and initialises a driver. Never throws for a missing or failing one. The library stays loaded: drivers have
// threads and exit handlers of their own.
DriverResult load_driver(const DriverSearch &search);

}  // namespace bonsai::cuda
