// The conformance suite: named checks that hold any backend against core/reference and the letter of bonsai/backend.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "host/backend/device.h"

namespace bonsai::check {

class Context;

// Which plugin is checked, and how its device is opened.
struct Plugin {
  std::filesystem::path path;
  uint32_t device = 0;
  std::vector<host::DeviceOption> options;
};

enum class Verdict { kPassed, kFailed, kSkipped };

struct Finding {
  std::string check;
  Verdict verdict;
  std::string why;  // one line; empty when it passed
};

// Quick checks are a representative subset that takes seconds; exhaustive ones are the whole product, in minutes.
enum class Extent { kQuick, kExhaustive };

struct Check {
  std::string name;     // unique: "gemv.Q4_K"
  std::string promise;  // one line: what a backend that passes keeps
  std::function<void(Context &)> run;
  Extent extent = Extent::kQuick;
  // Whatever is printed fails it, also while the plugin is loaded: unless an earlier check in this process has done so,
  // as with --in-process.
  bool wants_silence = false;
};

// Every check, in the order in which a backend's author would want them answered: level 0 first.
std::vector<Check> all_checks();

// Runs one check. A plugin that does not load or open fails every check, with its path and the loader's words. A plugin
// that crashes takes the process with it; isolated.h gives each check a process of its own.
Finding run(const Check &check, const Plugin &plugin);

}  // namespace bonsai::check
