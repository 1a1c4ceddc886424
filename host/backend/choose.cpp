// Choosing a backend and opening its device.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <span>
#include <string_view>
#include <system_error>

#include "host/backend/registry.h"

namespace bonsai::host {
namespace {

using BackendPtr = std::shared_ptr<const Backend>;

// Backends of negative priority ask to be passed over where the CPU works.
int rank(const Backend &backend) {
  if (backend.name() == kCpuBackend) return 1;
  return backend.priority() >= 0 ? 0 : 2;
}

bool is_preferred(const BackendPtr &a, const BackendPtr &b) {
  return rank(*a) != rank(*b) ? rank(*a) < rank(*b) : a->priority() > b->priority();
}

// The option keys of some backends. One that has no device to ask is taken to know every key of the form
// "NAME.anything".
class OptionKeys {
 public:
  void add(const Backend &backend) {
    const auto count = device_count(backend, nullptr);
    bool asked = false;
    for (uint32_t i = 0; count && i < *count; ++i) {
      const auto info = device_info(backend, i);
      if (!info) continue;
      asked = true;
      for (const DeviceInfo::Option &option : info->options) keys_.insert(option.key);
    }
    if (!asked) prefixes_.insert(backend.name() + ".");
  }

  bool know(const std::string &key) const {
    return key == kDeviceKey || keys_.contains(key) ||
           std::any_of(prefixes_.begin(), prefixes_.end(), [&](const auto &prefix) { return key.starts_with(prefix); });
  }

  std::string list() const {
    std::set<std::string> all = keys_;
    all.emplace(kDeviceKey);
    return fmt::format("{}", fmt::join(all, ", "));
  }

 private:
  std::set<std::string> keys_, prefixes_;
};

template <class... Args>
tl::unexpected<BackendError> callers_fault(fmt::format_string<Args...> format, Args &&...args) {
  return tl::unexpected(BackendError{BONSAI_INVALID_ARGUMENT, fmt::format(format, std::forward<Args>(args)...), true});
}

template <class... Args>
tl::unexpected<BackendError> failed(fmt::format_string<Args...> format, Args &&...args) {
  return tl::unexpected(BackendError{BONSAI_INTERNAL, fmt::format(format, std::forward<Args>(args)...)});
}

// Every key must be one that some backend knows, so that a misspelt one is not dropped in silence.
BackendResult<void> check_options(const BackendRequest &request, std::span<const BackendPtr> considered) {
  OptionKeys keys;
  for (const BackendPtr &backend : considered) keys.add(*backend);
  if (request.cpu) keys.add(*request.cpu);
  const auto unknown = [&](const DeviceOption &option) { return !option.is_implied && !keys.know(option.key); };
  if (std::none_of(request.options.begin(), request.options.end(), unknown)) return {};
  for (const Candidate &candidate : discover(request.search)) {
    if (candidate.backend != nullptr) keys.add(*candidate.backend);
  }
  const auto found = std::find_if(request.options.begin(), request.options.end(), unknown);
  if (found == request.options.end()) return {};
  return callers_fault("no backend knows the option '{}'; known are: {}", found->key, keys.list());
}

BackendResult<uint32_t> requested_index(const BackendRequest &request) {
  uint32_t index = 0;
  for (const DeviceOption &option : request.options) {
    if (option.key != kDeviceKey) continue;
    const char *end = option.value.data() + option.value.size();
    const auto parsed = std::from_chars(option.value.data(), end, index);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      return callers_fault("option 'device': expected a device's number, found '{}'", option.value);
    }
  }
  return index;
}

// One choice: tries backends and remembers why each was not taken.
class Choice {
 public:
  Choice(const BackendRequest &request, const ChoiceLog &log) : request_(request), log_(log) {}

  // Backends to try, best first. Files that cannot be used are noted.
  std::vector<BackendPtr> asked_for() {
    if (is_auto()) return all();
    BackendPtr backend;
    if (Backend::is_path(request_.backend)) {
      backend = load(request_.backend);
    } else if (Backend::is_name(request_.backend)) {
      backend = find(request_.backend);
    } else {
      reject(fmt::format("'{}'", request_.backend), std::string(Backend::kNeither));
    }
    return backend ? std::vector{backend} : std::vector<BackendPtr>();
  }

  // libbonsai_NAME.so from the first directory where it loads; nullptr, and noted, if there is none.
  BackendPtr find(std::string_view name) {
    const std::string file = fmt::format("libbonsai_{}.so", name);
    bool exists = false;
    for (const std::filesystem::path &directory : request_.search.directories) {
      std::error_code error;
      if (!std::filesystem::exists(directory / file, error)) continue;
      exists = true;
      if (BackendPtr backend = load(directory / file)) return backend;
    }
    if (!exists) reject(file, request_.search.not_found());
    return nullptr;
  }

  // Whether some of the user's options are for its device 0.
  bool has_options_for(const Backend &backend) const {
    const auto count = device_count(backend, nullptr);
    if (!count || *count == 0) return false;
    const auto info = device_info(backend, 0);
    return info && !options_for(backend, *info).empty();
  }

  // nullptr, and noted, if the device cannot be opened.
  std::unique_ptr<Device> open(const BackendPtr &backend, uint32_t index) {
    const std::string what = backend->path().string();
    std::string why_none;
    const auto count = device_count(*backend, &why_none);
    if (!count) return reject(what, count.error().message);
    if (*count == 0) return reject(what, why_none.empty() ? "no device" : "no device: " + why_none);
    if (index >= *count) return reject(what, fmt::format("no device {}, it has {}", index, *count));
    const auto info = device_info(*backend, index);
    if (!info) return reject(what, info.error().message);
    const std::vector<DeviceOption> options = options_for(*backend, *info);
    auto device = Device::open(backend, index, options, log_);
    if (!device) {
      if (!options.empty() && device.error().status == BONSAI_INVALID_ARGUMENT) refusal_ = device.error().message;
      // A device that is there and does not open is more than one that is not there.
      const bool is_told = is_auto() && backend->name() != kCpuBackend && refusal_.empty();
      return reject(what, device.error().message, is_told ? BONSAI_LOG_WARNING : BONSAI_LOG_INFO);
    }
    say(BONSAI_LOG_INFO, fmt::format("using {} {} from {}, device {}: {}", backend->name(), backend->version(), what,
                                     index, (*device)->info().name));
    return *std::move(device);
  }

  void say(bonsai_log_level level, const std::string &line) const {
    if (log_) log_(level, line);
  }

  // A device opened and did not serve.
  void pass_over(const Backend &backend, const BackendError &error, std::string_view next) {
    reasons_.push_back(fmt::format("{}: {}", backend.path().string(), error.message));
    say(BONSAI_LOG_WARNING, fmt::format("{}; {}", error.message, next));
  }

  // Why a backend refused the value of an option that the user gave; empty if none did. No other backend is to be tried
  // then: with it the option would go unheeded, and nobody would notice.
  const std::string &refusal() const { return refusal_; }

  // Says so where a device does not come up to what a user would expect without having asked for it.
  void warn_of_substitute(const Device &device, uint32_t index) const {
    const Backend &backend = device.backend();
    if (rank(backend) == 2 && !reasons_.empty()) {
      say(BONSAI_LOG_WARNING,
          fmt::format("using '{}', as no other backend could be opened: {}", backend.name(), reasons()));
    } else if (backend.name() == kCpuBackend && index > 0) {
      const std::string why = reasons_.empty() ? "no other backend" : reasons();
      say(BONSAI_LOG_WARNING, fmt::format("there is no device {}, using the CPU: {}", index, why));
    }
  }

  bool is_auto() const { return request_.backend == kAnyBackend; }

  std::string reasons() const { return fmt::format("{}", fmt::join(reasons_, "; ")); }

 private:
  std::vector<BackendPtr> all() {
    std::vector<BackendPtr> backends;
    for (const Candidate &candidate : discover(request_.search)) {
      if (candidate.backend == nullptr) {
        reject(candidate.path.string(), candidate.reason);
      } else if (candidate.shadowed) {
        reject(candidate.path.string(), fmt::format("a backend named '{}' was found earlier", candidate.name));
      } else {
        backends.push_back(candidate.backend);
      }
    }
    if (backends.empty() && reasons_.empty()) reject("libbonsai_*.so", request_.search.not_found());
    std::stable_sort(backends.begin(), backends.end(), is_preferred);
    return backends;
  }

  BackendPtr load(const std::filesystem::path &path) {
    auto backend = Backend::load(path);
    if (backend) return *std::move(backend);
    reject(path.string(), backend.error().message);
    return nullptr;
  }

  // What of the user's options this device lists.
  std::vector<DeviceOption> options_for(const Backend &backend, const DeviceInfo &info) const {
    std::vector<DeviceOption> sent;
    for (const DeviceOption &option : request_.options) {
      if (option.key == kDeviceKey) continue;
      const bool listed = std::any_of(info.options.begin(), info.options.end(),
                                      [&](const DeviceInfo::Option &known) { return known.key == option.key; });
      if (listed) {
        sent.push_back(option);
      } else {
        say(BONSAI_LOG_INFO, fmt::format("option '{}' is not one of {}'s: not sent", option.key, backend.name()));
      }
    }
    return sent;
  }

  std::nullptr_t reject(const std::string &what, const std::string &reason, bonsai_log_level level = BONSAI_LOG_INFO) {
    reasons_.push_back(fmt::format("{}: {}", what, reason));
    say(level, "not used: " + reasons_.back());
    return nullptr;
  }

  const BackendRequest &request_;
  const ChoiceLog &log_;
  std::vector<std::string> reasons_;
  std::string refusal_;
};

// The CPU may have to take over in the middle of a text: what it would refuse then is refused before there is any.
BackendResult<void> check_options_of_cpu(const BackendRequest &request) {
  const ChoiceLog no_log;
  Choice choice(request, no_log);
  const BackendPtr cpu = request.cpu ? request.cpu : choice.find(kCpuBackend);
  if (!cpu || !choice.has_options_for(*cpu)) return {};
  choice.open(cpu, 0);
  if (choice.refusal().empty()) return {};
  return callers_fault("{}", choice.refusal());
}

}  // namespace

BackendResult<void> open_device(const BackendRequest &request, const ChoiceLog &log, const DeviceUse &use) {
  const auto index = requested_index(request);
  if (!index) return tl::unexpected(index.error());

  Choice choice(request, log);
  const std::vector<BackendPtr> asked_for = choice.asked_for();
  if (auto checked = check_options(request, asked_for); !checked) return checked;
  bool did_open = false;
  for (size_t i = 0; i < asked_for.size(); ++i) {
    const Backend &backend = *asked_for[i];
    const bool is_cpu = backend.name() == kCpuBackend;
    auto device = choice.open(asked_for[i], choice.is_auto() && is_cpu ? 0 : *index);
    if (!choice.refusal().empty()) return callers_fault("{}", choice.refusal());
    if (!device) continue;
    if (!is_cpu && !request.strict && !did_open) {
      if (auto checked = check_options_of_cpu(request); !checked) return checked;
    }
    if (choice.is_auto()) choice.warn_of_substitute(*device, *index);
    auto used = use(std::move(device));
    if (used || is_cpu || request.strict) return used;
    did_open = true;
    const bool is_last = i + 1 == asked_for.size() || asked_for[i + 1]->name() == kCpuBackend;
    choice.pass_over(backend, used.error(),
                     is_last ? "falling back to the CPU" : fmt::format("trying '{}'", asked_for[i + 1]->name()));
  }
  if (choice.is_auto()) return failed("no backend could be opened: {}", choice.reasons());
  if (request.strict || request.backend == kCpuBackend)
    return failed("backend '{}' could not be opened: {}", request.backend, choice.reasons());
  if (!did_open)
    choice.say(BONSAI_LOG_WARNING, fmt::format("backend '{}' could not be opened, falling back to the CPU: {}",
                                               request.backend, choice.reasons()));
  auto cpu = open_cpu(request, log);
  if (cpu) return use(*std::move(cpu));
  if (cpu.error().is_callers_fault) return tl::unexpected(std::move(cpu.error()));
  return failed("backend '{}' could not {}: {}; the CPU could not take over: {}", request.backend,
                did_open ? "serve" : "be opened", choice.reasons(), cpu.error().message);
}

BackendResult<std::unique_ptr<Device>> open_device(const BackendRequest &request, const ChoiceLog &log) {
  std::unique_ptr<Device> opened;
  auto done = open_device(request, log, [&opened](std::unique_ptr<Device> device) -> BackendResult<void> {
    opened = std::move(device);
    return {};
  });
  if (!done) return tl::unexpected(std::move(done.error()));
  return opened;
}

std::shared_ptr<const Backend> find_cpu(const SearchPath &search, const ChoiceLog &log) {
  BackendRequest request;
  request.search = search;
  return Choice(request, log).find(kCpuBackend);
}

BackendResult<std::unique_ptr<Device>> open_cpu(const BackendRequest &request, const ChoiceLog &log) {
  Choice choice(request, log);
  if (const BackendPtr backend = request.cpu ? request.cpu : choice.find(kCpuBackend)) {
    if (auto device = choice.open(backend, 0)) return device;
  }
  if (!choice.refusal().empty()) return callers_fault("{}", choice.refusal());
  return failed("the CPU backend could not be opened: {}", choice.reasons());
}

}  // namespace bonsai::host
