#include "plugins/cuda/driver/platform.h"

#include <array>
#include <utility>

namespace bonsai::cuda {
namespace {

int attribute(const Driver &driver, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  driver.check(driver.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

DeviceDescription describe(const Driver &driver, int ordinal) {
  DeviceDescription device;
  driver.check(driver.cuDeviceGet(&device.handle, ordinal), "cuDeviceGet");
  std::array<char, 256> name = {};
  driver.check(driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()), device.handle), "cuDeviceGetName");
  device.name = name.data();
  size_t memory_bytes = 0;
  driver.check(driver.cuDeviceTotalMem_v2(&memory_bytes, device.handle), "cuDeviceTotalMem_v2");
  device.memory_bytes = memory_bytes;
  const auto read = [&](CUdevice_attribute which) { return attribute(driver, device.handle, which); };
  device.capability =
      10 * read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) + read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  device.multiprocessors = read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  device.shared_bytes_per_block = static_cast<uint64_t>(read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  device.shared_bytes_per_multiprocessor =
      static_cast<uint64_t>(read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
  return device;
}

std::string capability_name(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

// Adds a device to `platform` if it is usable; else one line that says why it is not.
std::string add_device(const Driver &driver, int ordinal, Platform &platform) {
  try {
    DeviceDescription device = describe(driver, ordinal);
    if (device.capability < kOldestCapability) {
      return fmt::format("{} has compute capability {}, expected at least {}", device.name,
                         capability_name(device.capability), capability_name(kOldestCapability));
    }
    platform.devices.push_back(std::move(device));
    return {};
  } catch (const Failure &failure) {
    return fmt::format("the driver's device {} cannot be described: {}", ordinal, failure.what());
  }
}

// Adds the usable devices to `platform`, and why the others are not.
void find_devices(const Driver &driver, Platform &platform) {
  int count = 0;
  driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count == 0) platform.reason = "the NVIDIA driver reports no device";
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const std::string why = add_device(driver, ordinal, platform);
    if (!platform.reason.empty() && !why.empty()) platform.reason += "; ";
    platform.reason += why;
  }
}

}  // namespace

Platform find_platform(const DriverSearch &search) {
  const DriverResult result = load_driver(search);
  Platform platform{.driver = result.driver, .devices = {}, .reason = result.reason, .left_out = {}};
  if (!platform.driver) return platform;
  try {
    find_devices(*platform.driver, platform);
    if (!platform.devices.empty()) platform.left_out = std::exchange(platform.reason, {});
  } catch (const Failure &failure) {
    platform.devices.clear();
    platform.reason = failure.what();
  }
  return platform;
}

const Platform &platform() {
  static const Platform found = find_platform({});
  return found;
}

}  // namespace bonsai::cuda
