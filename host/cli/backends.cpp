// `bonsai backends`: every backend that was found and its devices, or why one cannot be used.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/standard_streams.h"
#include "core/base/utf8.h"
#include "host/backend/device.h"
#include "host/backend/registry.h"
#include "host/cli/arguments.h"
#include "host/cli/command.h"
#include "host/cli/units.h"

namespace bonsai::cli {
namespace {

using Json = nlohmann::ordered_json;

// Those of a name in the search path, or the file of a path.
std::vector<host::Candidate> find_candidates(const std::string &given) {
  host::Candidate candidate;
  candidate.path = given;
  candidate.name = candidate.path.filename().string();
  if (host::Backend::is_path(given)) {
    auto backend = host::Backend::load(given);
    if (backend) {
      candidate.backend = *std::move(backend);
      candidate.name = candidate.backend->name();
    } else {
      candidate.reason = backend.error().message;
    }
  } else if (host::Backend::is_name(given)) {
    const auto search = host::SearchPath::standard();
    std::vector<host::Candidate> found = host::discover(search);
    std::erase_if(found, [&given](const host::Candidate &other) { return other.name != given; });
    if (!found.empty()) return found;
    candidate.path = fmt::format("libbonsai_{}.so", given);
    candidate.reason = search.not_found();
  } else {
    candidate.reason = host::Backend::kNeither;
  }
  return {std::move(candidate)};
}

// A backend's devices, or why it has none.
struct Devices {
  std::vector<host::DeviceInfo> devices = {};
  std::string reason = {};
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

// What was found, all of it asked for once.
struct Finding {
  host::Candidate candidate;
  Devices list;  // empty where there is no backend

  bool is_usable() const { return !list.devices.empty() && !candidate.shadowed; }
};

// What there is of one that was asked for, by its name or path, or of them all. Broken and hidden copies of one that
// can be used are no harm.
struct Answer {
  std::vector<Finding> findings = {};

  bool is_usable() const {
    return std::any_of(findings.begin(), findings.end(), [](const Finding &finding) { return finding.is_usable(); });
  }
};

Answer look_at(std::vector<host::Candidate> candidates) {
  Answer answer;
  for (host::Candidate &candidate : candidates) {
    Devices list;
    if (candidate.backend) list = list_devices(*candidate.backend);
    answer.findings.push_back({std::move(candidate), std::move(list)});
  }
  return answer;
}

std::vector<Answer> look_at(const std::vector<std::string> &given) {
  if (given.empty()) return {look_at(host::discover(host::SearchPath::standard()))};
  std::vector<Answer> answers;
  for (const std::string &one : given) answers.push_back(look_at(find_candidates(one)));
  return answers;
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

Json to_json(const Finding &finding) {
  const host::Candidate &candidate = finding.candidate;
  Json json = {{"name", candidate.name}, {"file", candidate.path.string()}};
  std::string reason = candidate.reason;
  Json devices = Json::array();
  if (candidate.backend) {
    json["version"] = candidate.backend->version();
    json["description"] = candidate.backend->description();
    json["abi"] = abi_version(*candidate.backend);
    json["level"] = candidate.backend->level();
    json["priority"] = candidate.backend->priority();
    for (const host::DeviceInfo &device : finding.list.devices) devices.push_back(to_json(device));
    reason = candidate.shadowed ? "a backend of this name was found earlier" : finding.list.reason;
  }
  json["devices"] = devices;
  json["usable"] = finding.is_usable();
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

std::string describe(const Finding &finding) {
  const host::Candidate &candidate = finding.candidate;
  if (!candidate.backend)
    return fmt::format("{}: {}\n  not used: {}\n", printable(candidate.name), printable(candidate.path.string()),
                       printable(candidate.reason));
  const host::Backend &backend = *candidate.backend;
  std::string text = fmt::format("{} {}: {}\n", backend.name(), backend.version(), printable(candidate.path.string()));
  text += fmt::format("  {}\n  ABI {}, level {}, priority {}\n", backend.description(), abi_version(backend),
                      backend.level(), backend.priority());
  if (candidate.shadowed) return text + "  not used: a backend of this name was found earlier\n";
  const Devices &list = finding.list;
  for (size_t i = 0; i < list.devices.size(); ++i) text += describe(list.devices[i], i);
  if (!list.reason.empty())
    text += fmt::format("  {}{}\n", list.devices.empty() ? "not used: " : "", printable(list.reason));
  return text;
}

// The option by which a backend's device makes everything ready that it would otherwise make when it is first needed,
// compiled kernels above all: `NAME.warm`.
bool has_warm_option(const host::Backend &backend, const host::DeviceInfo &device) {
  const std::string key = backend.name() + ".warm";
  return std::any_of(device.options.begin(), device.options.end(),
                     [&](const auto &option) { return option.key == key; });
}

// What became of making a device ready.
struct Warmed {
  std::string backend;
  uint32_t device;
  std::string reason;  // why not; empty where it is
};

std::string describe(const Warmed &warmed) {
  return fmt::format("{} device {}: {}\n", printable(warmed.backend), warmed.device,
                     warmed.reason.empty() ? "ready" : printable(warmed.reason));
}

Json to_json(const Warmed &warmed) {
  return {{"backend", warmed.backend},
          {"device", warmed.device},
          {"ready", warmed.reason.empty()},
          {"reason", warmed.reason}};
}

// Adds what became of the devices of one file, each opened once.
void warm(const Finding &finding, const host::Device::Log &log, std::vector<Warmed> &all) {
  const std::string &name = finding.candidate.name;
  for (uint32_t i = 0; i < finding.list.devices.size(); ++i) {
    if (!has_warm_option(*finding.candidate.backend, finding.list.devices[i])) continue;
    const std::vector<host::DeviceOption> options = {{name + ".warm", "on"}};
    const auto opened = host::Device::open(finding.candidate.backend, i, options, log);
    all.push_back({name, i, opened ? "" : opened.error().message});
  }
}

// Opens every device that can be warmed; what it makes is kept by the backend, on disk. It may take minutes, so what
// the backend says of it is shown on stderr unless the log is off.
std::vector<Warmed> warm(const std::vector<Answer> &answers, bool are_given, const Terminal &terminal) {
  const bool is_shown = terminal.log.level() != spdlog::level::off;
  const auto show = [is_shown](bonsai_log_level level, const std::string &line) {
    if (is_shown && level >= BONSAI_LOG_INFO) print_to_stderr("{}\n", line);
  };
  std::vector<Warmed> all;
  for (const Answer &answer : answers) {
    for (const Finding &finding : answer.findings) {
      const auto &[candidate, list] = finding;
      if (finding.is_usable())
        warm(finding, show, all);
      else if (are_given && !answer.is_usable() && !candidate.shadowed)
        all.push_back({candidate.name, 0, candidate.backend ? list.reason : candidate.reason});
    }
  }
  return all;
}

void show(const std::vector<Warmed> &all, bool as_json, Output &out) {
  if (as_json) {
    Json json = Json::array();
    for (const Warmed &warmed : all) json.push_back(to_json(warmed));
    return out.write_json(json);
  }
  for (const Warmed &warmed : all) out.write(describe(warmed));
  if (all.empty()) out.write("no device has anything to make ready\n");
}

int warm_command(const std::vector<Answer> &answers, bool are_given, bool as_json, Terminal &terminal) {
  const std::vector<Warmed> all = warm(answers, are_given, terminal);
  write_if_read([&] { show(all, as_json, terminal.out); });
  const bool is_well = std::all_of(all.begin(), all.end(), [](const Warmed &warmed) { return warmed.reason.empty(); });
  return is_well ? kSuccess : kFailure;
}

void show(const std::vector<Answer> &answers, bool as_json, Output &out) {
  Json json = Json::array();
  std::string text;
  for (const Answer &answer : answers) {
    for (const Finding &finding : answer.findings) {
      if (as_json)
        json.push_back(to_json(finding));
      else
        text += describe(finding);
    }
  }
  if (as_json) return out.write_json(json);
  if (text.empty()) {
    text = "no libbonsai_*.so found in:\n";
    for (const auto &directory : host::SearchPath::standard().directories)
      text += "  " + printable(directory.string()) + "\n";
  }
  out.write(text);
}

}  // namespace

int backends_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  Options options("backends", "[NAME or FILE...] [OPTIONS]",
                  "Shows every backend in the search path (BONSAI_BACKEND_PATH, ../lib/bonsai from the program, the\n"
                  "installed directory), or the given ones, a FILE with a '/' in it: its devices with their memory\n"
                  "and options, or why it cannot be used. --backend-opt device=N of other commands picks a device.\n"
                  "The exit code is 1 if a given one cannot be used. JSON: an array with one object per file, with\n"
                  "--warm per device.");
  options.positional("library", -1);
  options.flag("warm",
               "have every device make ready what it would otherwise make when it is first needed: CUDA's kernels "
               "are compiled and kept on disk");
  const auto arguments = Arguments::parse(options, command_line, terminal);
  if (!arguments) return kSuccess;
  const std::vector<std::string> given = arguments->texts("library");
  const std::vector<Answer> answers = look_at(given);
  if (arguments->flag("warm")) return warm_command(answers, !given.empty(), arguments->flag("json"), terminal);
  write_if_read([&] { show(answers, arguments->flag("json"), terminal.out); });
  const bool are_well =
      given.empty() || std::all_of(answers.begin(), answers.end(), [](const Answer &a) { return a.is_usable(); });
  return are_well ? kSuccess : kFailure;
}

}  // namespace bonsai::cli
