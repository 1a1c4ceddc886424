// An open device of a backend, and what was made on it, as C++ objects that clean up after themselves.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/backend/status.h"

namespace bonsai::host {

class Backend;

inline constexpr std::string_view kDeviceKey = "device";  // the host's own option; no backend is sent it

struct DeviceOption {
  std::string key, value;   // "cpu.threads", "2"
  bool is_implied = false;  // by what a user said in other words: without its backend it means nothing
};

// What device_info says, copied out of the plugin's memory; absent fields have their defaults.
struct DeviceInfo {
  std::string name;
  bonsai_features features = 0;
  uint64_t memory_total_bytes = 0, memory_free_bytes = 0;
  struct Option {
    std::string key, help;
  };
  std::vector<Option> options;
  std::vector<bonsai_kv_dtype> kv_dtypes;
  std::vector<uint32_t> block_sizes;
  uint32_t max_k = 0;
};

BackendResult<uint32_t> device_count(const Backend &backend, std::string *why_none);
BackendResult<DeviceInfo> device_info(const Backend &backend, uint32_t index);

// All calls on one Device and what it made are serialised by the caller.
class Device {
 public:
  using Log = std::function<void(bonsai_log_level, const std::string &)>;
  static BackendResult<std::unique_ptr<Device>> open(std::shared_ptr<const Backend> backend, uint32_t index,
                                                     std::span<const DeviceOption> options, Log log);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const Backend &backend() const { return *backend_; }
  const bonsai_backend_api &api() const;
  bonsai_device *handle() const { return handle_; }
  const DeviceInfo &info() const { return info_; }

  struct Status {
    uint32_t threads = 0;
    std::string kernel;
    uint64_t weight_bytes = 0, borrowed_bytes = 0, session_bytes = 0, memory_total_bytes = 0, memory_free_bytes = 0;
  };
  BackendResult<Status> status() const;  // zeros where the backend does not offer it

  // One kind of the device's work since its profile was started; bonsai_profile_phase says what the fields are.
  struct Phase {
    std::string name;
    double seconds = 0;
    uint64_t calls = 0;
    uint64_t bytes = 0;
  };
  // What the device measured up to now, before `action`; nullopt where the backend does not offer it.
  BackendResult<std::optional<std::vector<Phase>>> profile(bonsai_profile_action action) const;

  BackendResult<bonsai_weight_use> dtype_support(bonsai_dtype dtype) const;

 private:
  Device() = default;
  std::shared_ptr<const Backend> backend_;
  bonsai_device *handle_ = nullptr;
  DeviceInfo info_;
  std::unique_ptr<Log> log_;
};

// A weight on a device; freed with it. The device must outlive it.
class Weight {
 public:
  struct Part {
    bonsai_dtype dtype;
    uint64_t rows;
    std::span<const std::byte> data;
  };
  // `borrowed`: the parts' memory outlives the weight.
  static BackendResult<Weight> upload(Device &device, const std::string &name, uint64_t columns,
                                      std::span<const Part> parts, bonsai_weight_use uses, bool borrowed);
  Weight() = default;
  Weight(Weight &&other) noexcept;
  Weight &operator=(Weight &&other) noexcept;
  ~Weight();

  const bonsai_weight *handle() const { return handle_; }
  bool keeps_host_memory() const { return keeps_host_memory_; }
  uint64_t bytes() const { return bytes_; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Device *device_ = nullptr;
  bonsai_weight *handle_ = nullptr;
  bool keeps_host_memory_ = false;
  uint64_t bytes_ = 0;
};

}  // namespace bonsai::host
