#include "host/backend/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "host/backend/plugin_text.h"
#include "host/backend/registry.h"

namespace bonsai::host {
namespace {

constexpr size_t kMaxLogBytes = 4096;

// Far above what any backend has a use for: a count beyond is garbage, and its array must not be read.
constexpr uint32_t kMaxOptions = 256;
constexpr uint32_t kMaxKvDtypes = 16;
constexpr uint32_t kMaxBlockSizes = 64;
constexpr uint32_t kMaxBlockTokens = 65536;
constexpr uint32_t kMaxDevices = 1024;
constexpr uint32_t kMaxPhases = 256;

tl::unexpected<BackendError> broken(const Backend &backend, const std::string &what) {
  return tl::unexpected(BackendError{BONSAI_INTERNAL, fmt::format("{}: {}", backend.name(), what)});
}

// Why an array that a backend describes cannot be read; empty if it can.
std::string array_fault(const char *field, const void *array, uint32_t count, uint32_t most,
                        const char *function = "device_info") {
  if (count > most) return fmt::format("{} reports {} {}, at most {} make sense", function, count, field, most);
  if (count > 0 && array == nullptr) return fmt::format("{} reports {} {} and no array", function, count, field);
  return {};
}

BackendResult<std::vector<DeviceInfo::Option>> copy_options(const Backend &backend, const bonsai_device_info &raw) {
  std::vector<DeviceInfo::Option> options;
  for (uint32_t i = 0; i < raw.n_options; ++i) {
    const bonsai_option_info *option = raw.options[i];
    if (option == nullptr || !BONSAI_HAS_FIELD(option, bonsai_option_info, help)) {
      return broken(backend, fmt::format("device_info's option {} is missing or too short", i));
    }
    std::string key = plugin_text(option->key, kMaxTextBytes);
    if (key.empty()) return broken(backend, fmt::format("device_info's option {} has no key", i));
    if (key == kDeviceKey || key.find('=') != key.npos)
      return broken(backend, fmt::format("device_info lists the option '{}', which nobody can give", key));
    if (std::any_of(options.begin(), options.end(), [&key](const auto &earlier) { return earlier.key == key; }))
      return broken(backend, fmt::format("device_info lists the option '{}' twice", key));
    options.push_back({std::move(key), plugin_text(option->help, kMaxTextBytes)});
  }
  return options;
}

// Why block sizes cannot be used; empty if they can.
std::string block_size_fault(std::span<const uint32_t> sizes) {
  for (const uint32_t size : sizes) {
    if (size == 0 || size > kMaxBlockTokens)
      return fmt::format("device_info reports KV blocks of {} tokens, expected 1 to {}", size, kMaxBlockTokens);
  }
  return {};
}

// More than there is makes no sense: then it is not known.
uint64_t free_bytes(uint64_t free, uint64_t total) { return total > 0 && free > total ? 0 : free; }

BackendResult<DeviceInfo> copy_info(const Backend &backend, const bonsai_device_info &raw) {
  for (const std::string &fault : {array_fault("options", raw.options, raw.n_options, kMaxOptions),
                                   array_fault("KV dtypes", raw.kv_dtypes, raw.n_kv_dtypes, kMaxKvDtypes),
                                   array_fault("block sizes", raw.block_sizes, raw.n_block_sizes, kMaxBlockSizes)}) {
    if (!fault.empty()) return broken(backend, fault);
  }
  auto options = copy_options(backend, raw);
  if (!options) return tl::unexpected(options.error());

  DeviceInfo info;
  info.name = plugin_text(raw.name, kMaxTextBytes);
  if (info.name.empty()) info.name = "(no name)";
  info.features = raw.features;
  info.memory_total_bytes = raw.memory_total_bytes;
  info.memory_free_bytes = free_bytes(raw.memory_free_bytes, raw.memory_total_bytes);
  info.options = *std::move(options);
  info.kv_dtypes.assign(raw.kv_dtypes, raw.kv_dtypes + raw.n_kv_dtypes);
  info.block_sizes.assign(raw.block_sizes, raw.block_sizes + raw.n_block_sizes);
  if (const std::string fault = block_size_fault(info.block_sizes); !fault.empty()) return broken(backend, fault);
  info.max_k = raw.max_k;
  return info;
}

// The bonsai_log_fn of every device: `context` is its Device::Log. Levels that the ABI does not define are errors, and
// what says nothing is no line. No exception may cross into the backend.
void forward_log(void *context, bonsai_log_level level, const char *message) {
  try {
    const std::string line = plugin_text(message, kMaxLogBytes);
    if (line.empty()) return;
    (*static_cast<const Device::Log *>(context))(std::min<bonsai_log_level>(level, BONSAI_LOG_ERROR), line);
  } catch (...) {
    // A line of the log is lost; the computation that wanted to report it is not.
  }
}

}  // namespace

BackendResult<uint32_t> device_count(const Backend &backend, std::string *why_none) {
  uint32_t count = 0;
  CallError error;
  const bonsai_status status = error.of([&] { return backend.api().device_count(&count, error.out()); });
  if (status != BONSAI_OK) return tl::unexpected(error.failure(backend.name(), "device_count", status));
  if (count > kMaxDevices)
    return broken(backend, fmt::format("device_count reports {} devices, at most {} make sense", count, kMaxDevices));
  if (count == 0 && why_none != nullptr) *why_none = error.message();
  return count;
}

BackendResult<DeviceInfo> device_info(const Backend &backend, uint32_t index) {
  bonsai_device_info raw{};
  raw.struct_size = sizeof raw;
  CallError error;
  const bonsai_status status = error.of([&] { return backend.api().device_info(index, &raw, error.out()); });
  if (status != BONSAI_OK) return tl::unexpected(error.failure(backend.name(), "device_info", status));
  return copy_info(backend, raw);
}

BackendResult<std::unique_ptr<Device>> Device::open(std::shared_ptr<const Backend> backend, uint32_t index,
                                                    std::span<const DeviceOption> options, Log log) {
  auto info = device_info(*backend, index);
  if (!info) return tl::unexpected(info.error());

  std::vector<bonsai_option> raw_options;
  for (const DeviceOption &option : options) {
    raw_options.push_back({sizeof(bonsai_option), option.key.c_str(), option.value.c_str()});
  }
  std::vector<const bonsai_option *> pointers;
  for (const bonsai_option &option : raw_options) pointers.push_back(&option);

  std::unique_ptr<Device> device(new Device);
  device->info_ = *std::move(info);
  if (log) device->log_ = std::make_unique<Log>(std::move(log));
  bonsai_device_config config{};
  config.struct_size = sizeof config;
  config.n_options = static_cast<uint32_t>(pointers.size());
  config.options = pointers.data();
  config.log = device->log_ ? forward_log : nullptr;
  config.log_context = device->log_.get();
  CallError error;
  const bonsai_status status =
      error.of([&] { return backend->api().device_open(index, &config, &device->handle_, error.out()); });
  if (status != BONSAI_OK) {
    device->handle_ = nullptr;
    return tl::unexpected(error.failure(backend->name(), "device_open", status));
  }
  if (device->handle_ == nullptr) return broken(*backend, "device_open succeeded without a device");
  device->backend_ = std::move(backend);
  return device;
}

Device::~Device() {
  if (handle_ != nullptr) call_quietly([&] { api().device_close(handle_); });
}

const bonsai_backend_api &Device::api() const { return backend_->api(); }

BackendResult<Device::Status> Device::status() const {
  if (api().device_status == nullptr) return Status();
  bonsai_device_status raw{};
  raw.struct_size = sizeof raw;
  CallError error;
  const bonsai_status status = error.of([&] { return api().device_status(handle_, &raw, error.out()); });
  if (status != BONSAI_OK) return tl::unexpected(error.failure(backend_->name(), "device_status", status));
  Status result;
  result.threads = raw.threads;
  result.kernel = plugin_text(raw.kernel, kMaxTextBytes);
  result.weight_bytes = raw.weight_bytes;
  result.borrowed_bytes = raw.borrowed_bytes;
  result.session_bytes = raw.session_bytes;
  result.memory_total_bytes = raw.memory_total_bytes;
  result.memory_free_bytes = free_bytes(raw.memory_free_bytes, raw.memory_total_bytes);
  return result;
}

BackendResult<std::optional<std::vector<Device::Phase>>> Device::profile(bonsai_profile_action action) const {
  if (api().profile == nullptr) return std::nullopt;
  bonsai_profile raw{};
  raw.struct_size = sizeof raw;
  CallError error;
  const bonsai_status status = error.of([&] { return api().profile(handle_, action, &raw, error.out()); });
  if (status != BONSAI_OK) return tl::unexpected(error.failure(backend_->name(), "profile", status));
  const std::string fault = array_fault("phases", raw.phases, raw.n_phases, kMaxPhases, "profile");
  if (!fault.empty()) return broken(*backend_, fault);
  std::vector<Phase> phases;
  for (uint32_t i = 0; i < raw.n_phases; ++i) {
    const bonsai_profile_phase *phase = raw.phases[i];
    if (phase == nullptr || !BONSAI_HAS_FIELD(phase, bonsai_profile_phase, bytes)) {
      return broken(*backend_, fmt::format("profile's phase {} is missing or too short", i));
    }
    phases.push_back({plugin_text(phase->name, kMaxTextBytes), phase->seconds, phase->calls, phase->bytes});
  }
  return phases;
}

BackendResult<bonsai_weight_use> Device::dtype_support(bonsai_dtype dtype) const {
  bonsai_weight_use uses = 0;
  CallError error;
  const bonsai_status status = error.of([&] { return api().dtype_support(handle_, dtype, &uses, error.out()); });
  // A dtype that was appended to the ABI after the backend was built is an unknown enum value to it: no use is served.
  if (status == BONSAI_UNSUPPORTED) return bonsai_weight_use{0};
  if (status != BONSAI_OK) return tl::unexpected(error.failure(backend_->name(), "dtype_support", status));
  return uses;
}

BackendResult<Weight> Weight::upload(Device &device, const std::string &name, uint64_t columns,
                                     std::span<const Part> parts, bonsai_weight_use uses, bool borrowed) {
  std::vector<bonsai_weight_part> raw_parts;
  for (const Part &part : parts) {
    raw_parts.push_back(
        {sizeof(bonsai_weight_part), part.dtype, part.rows, part.data.data(), uint64_t{part.data.size()}});
  }
  std::vector<const bonsai_weight_part *> pointers;
  for (const bonsai_weight_part &part : raw_parts) pointers.push_back(&part);

  bonsai_weight_desc desc{};
  desc.struct_size = sizeof desc;
  desc.flags = borrowed ? bonsai_weight_flags{BONSAI_WEIGHT_BORROWED} : 0;
  desc.uses = uses;
  desc.n_parts = static_cast<uint32_t>(pointers.size());
  desc.columns = columns;
  desc.parts = pointers.data();
  desc.name = name.c_str();
  bonsai_weight_result result{};
  result.struct_size = sizeof result;
  Weight weight;
  weight.device_ = &device;
  CallError error;
  const bonsai_status status = error.of(
      [&] { return device.api().weight_upload(device.handle(), &desc, &weight.handle_, &result, error.out()); });
  if (status != BONSAI_OK) {
    weight.handle_ = nullptr;
    return tl::unexpected(error.failure(device.backend().name(), "weight_upload", status));
  }
  if (weight.handle_ == nullptr) return broken(device.backend(), "weight_upload succeeded without a weight");
  weight.keeps_host_memory_ = borrowed && result.borrowed != 0;
  weight.bytes_ = result.bytes;
  return weight;
}

Weight::Weight(Weight &&other) noexcept { *this = std::move(other); }

Weight &Weight::operator=(Weight &&other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(keeps_host_memory_, other.keeps_host_memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Weight::~Weight() {
  if (handle_ != nullptr) call_quietly([&] { device_->api().weight_free(device_->handle(), handle_); });
}

}  // namespace bonsai::host
