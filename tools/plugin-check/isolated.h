// Checks in processes of their own: a plugin that crashes, hangs or ends the process fails one check, and the others go
// on.
#pragma once

#include <chrono>
#include <string>

#include "core/base/result.h"
#include "tools/plugin-check/check.h"

namespace bonsai::check {

struct Isolation {
  std::chrono::seconds limit;  // of one process
  bool (*go_on)();             // false: the process is ended at once, and what is said of it means nothing
};

// As run() in check.h. The calling process loads nothing, and must have one thread.
Finding run_isolated(const Check &check, const Plugin &plugin, const Isolation &isolation);

// Loads the plugin and opens its device, likewise: "template 0.1.0, level 0". The error names the path.
Result<std::string> examine(const Plugin &plugin, const Isolation &isolation);

}  // namespace bonsai::check
