// `bonsai backends`: every backend that was found and its devices, or why one cannot be used.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/backend/device.h"
#include "host/backend/registry.h"
#include "host/cli/arguments.h"
#include "host/cli/command.h"
#include "host/cli/units.h"

namespace bonsai::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<host::Candidate> find_candidates(const std::vector<std::string> &paths) {
  if (paths.empty()) return host::discover(host::SearchPath::standard());
  std::vector<host::Candidate> candidates;
  for (const std::string &path : paths) {
    host::Candidate candidate;
    candidate.path = path;
    candidate.name = candidate.path.filename().string();
    if (auto backend = host::Backend::load(path)) {
      candidate.backend = *std::move(backend);
      candidate.name = candidate.backend->name();
    } else {
      candidate.reason = backend.error().message;
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// A backend's devices, or why it has none.
struct Devices {
  std::vector<host::DeviceInfo> devices;
  std::string reason;
};

Devices list_devices(const host::Backend &backend) {
  Devices list;
  const auto count = host::device_count(backend, &list.reason);
  if (!count) list.reason = count.error().message;
  for (uint32_t i = 0; count && i < *count; ++i) {
    auto info = host::device_info(backend, i);
    if (info)
      list.devices.push_back(*std::move(info));
    else
      list.reason = fmt::format("device {}: {}", i, info.error().message);
  }
  if (list.devices.empty() && list.reason.empty()) list.reason = "no device";
  return list;
}

std::string abi_version(const host::Backend &backend) {
  return fmt::format("{}.{}", backend.api().abi_major, backend.api().abi_minor);
}

Json to_json(const host::DeviceInfo &device) {
  Json options = Json::array();
  for (const auto &option : device.options) options.push_back({{"key", option.key}, {"help", option.help}});
  return {{"name", device.name},
          {"memory_total_bytes", device.memory_total_bytes},
          {"memory_free_bytes", device.memory_free_bytes},
          {"options", options}};
}

Json to_json(const host::Candidate &candidate) {
  Json json = {{"name", candidate.name}, {"file", candidate.path.string()}};
  std::string reason = candidate.reason;
  Json devices = Json::array();
  if (candidate.backend) {
    const Devices list = list_devices(*candidate.backend);
    json["version"] = candidate.backend->version();
    json["description"] = candidate.backend->description();
    json["abi"] = abi_version(*candidate.backend);
    json["level"] = candidate.backend->level();
    json["priority"] = candidate.backend->priority();
    for (const host::DeviceInfo &device : list.devices) devices.push_back(to_json(device));
    reason = candidate.shadowed ? "a backend of this name was found earlier" : list.reason;
  }
  json["devices"] = devices;
  json["usable"] = !devices.empty() && !candidate.shadowed;
  json["reason"] = reason;
  return json;
}

std::string describe(const host::DeviceInfo &device, size_t index) {
  std::string text = fmt::format("  device {}: {}", index, device.name);
  if (device.memory_total_bytes > 0) text += fmt::format(", memory {}", format_bytes(device.memory_total_bytes));
  if (device.memory_free_bytes > 0) text += fmt::format(" ({} free)", format_bytes(device.memory_free_bytes));
  text += '\n';
  for (const auto &option : device.options) text += fmt::format("    {:<20} {}\n", option.key, option.help);
  return text;
}

std::string describe(const host::Candidate &candidate) {
  if (!candidate.backend)
    return fmt::format("{}: {}\n  not used: {}\n", candidate.name, candidate.path.string(), candidate.reason);
  const host::Backend &backend = *candidate.backend;
  std::string text = fmt::format("{} {}: {}\n", backend.name(), backend.version(), candidate.path.string());
  text += fmt::format("  {}\n  ABI {}, level {}, priority {}\n", backend.description(), abi_version(backend),
                      backend.level(), backend.priority());
  if (candidate.shadowed) return text + "  not used: a backend of this name was found earlier\n";
  const Devices list = list_devices(backend);
  for (size_t i = 0; i < list.devices.size(); ++i) text += describe(list.devices[i], i);
  if (!list.reason.empty()) text += fmt::format("  {}{}\n", list.devices.empty() ? "not used: " : "", list.reason);
  return text;
}

// The option by which a backend's device makes everything ready that it would otherwise make when it is first needed,
// compiled kernels above all: `NAME.warm`.
bool has_warm_option(const host::Backend &backend, const host::DeviceInfo &device) {
  const std::string key = backend.name() + ".warm";
  return std::any_of(device.options.begin(), device.options.end(),
                     [&](const auto &option) { return option.key == key; });
}

// Opens every device that can be warmed, once; what it makes is kept by the backend, on disk. Returns whether all went
// well.
bool warm(const std::vector<host::Candidate> &candidates, Terminal &terminal) {
  bool all_well = true, any = false;
  for (const host::Candidate &candidate : candidates) {
    if (!candidate.backend || candidate.shadowed) continue;
    const Devices list = list_devices(*candidate.backend);
    for (uint32_t i = 0; i < list.devices.size(); ++i) {
      if (!has_warm_option(*candidate.backend, list.devices[i])) continue;
      any = true;
      const std::string name = fmt::format("{} device {}", candidate.backend->name(), i);
      const std::vector<host::DeviceOption> options = {{candidate.backend->name() + ".warm", "on"}};
      const auto opened = host::Device::open(
          candidate.backend, i, options, [](bonsai_log_level, const std::string &line) { spdlog::info("{}", line); });
      all_well = all_well && opened.has_value();
      terminal.out.write(opened ? fmt::format("{}: ready\n", name)
                                : fmt::format("{}: {}\n", name, opened.error().message));
    }
  }
  if (!any) terminal.out.write("no device has anything to make ready\n");
  return all_well;
}

}  // namespace

int backends_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  Options options("backends", "[FILE...] [OPTIONS]",
                  "Shows every backend in the search path (BONSAI_BACKEND_PATH, ../lib/bonsai from the program, the\n"
                  "installed directory), or those of the given files: its devices with their memory and options, or\n"
                  "why it cannot be used. JSON: an array with one object per file.");
  options.positional("library", -1);
  options.flag("warm",
               "have every device make ready what it would otherwise make when it is first needed: CUDA's kernels\n"
               "are compiled and kept on disk");
  const auto arguments = Arguments::parse(options, command_line, terminal);
  if (!arguments) return kSuccess;
  const std::vector<host::Candidate> candidates = find_candidates(arguments->texts("library"));
  if (arguments->flag("warm")) return warm(candidates, terminal) ? kSuccess : kFailure;
  if (arguments->flag("json")) {
    Json json = Json::array();
    for (const host::Candidate &candidate : candidates) json.push_back(to_json(candidate));
    terminal.out.write_json(json);
    return kSuccess;
  }
  for (const host::Candidate &candidate : candidates) terminal.out.write(describe(candidate));
  if (candidates.empty()) {
    std::string text = "no libbonsai_*.so found in:\n";
    for (const auto &directory : host::SearchPath::standard().directories) text += "  " + directory.string() + "\n";
    terminal.out.write(text);
  }
  return kSuccess;
}

}  // namespace bonsai::cli
