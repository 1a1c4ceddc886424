// How many cores this process has.
#pragma once

#include <string>
#include <vector>

#include "core/base/control_group.h"

namespace bonsai {

// Cores that this process may run on: its affinity mask, cut by the least CPU quota of its control groups (rounded up).
int available_cores(const std::vector<std::string> &groups = control_groups());

}  // namespace bonsai
