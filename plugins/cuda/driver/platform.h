// What this machine offers: the driver and the devices on which the kernels can run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/cuda/driver/driver.h"

namespace bonsai::cuda {

// The oldest compute capability that the kernels are compiled for: Turing, the first with int8 tensor cores.
inline constexpr int kOldestCapability = 75;
inline constexpr int kBitMmaCapability = 80;   // from which on tensor cores multiply single bits
inline constexpr int kWaitingCapability = 90;  // from which on kernels can be launched before those ahead have ended

struct DeviceDescription {
  CUdevice handle = 0;
  std::string name;    // "NVIDIA H200"
  int capability = 0;  // 10 major + minor: 90
  uint64_t memory_bytes = 0;
  int multiprocessors = 0;
  uint64_t shared_bytes_per_block = 0;  // most dynamic shared memory that a launch may ask for
  uint64_t shared_bytes_per_multiprocessor = 0;
};

struct Platform {
  std::shared_ptr<const Driver> driver;    // null if there is none
  std::vector<DeviceDescription> devices;  // usable ones, in the driver's order
  std::string reason;                      // why `devices` is empty; else empty
  std::string left_out;                    // why others are not among `devices`; empty if all are, or none
};

Platform find_platform(const DriverSearch &search);

// The platform of this process, looked for on the first call and never again. A static, although the project has no
// singletons: the ABI asks how many devices there are before any object of ours exists, drivers cannot be initialised
// twice to another effect, and names handed out by device_info live as long as the backend. It never changes.
const Platform &platform();

}  // namespace bonsai::cuda
