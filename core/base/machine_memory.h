// How much memory there is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/control_group.h"

namespace bonsai {

// The machine's, or what the process's control groups leave of it.
struct MachineMemory {
  uint64_t total_bytes;  // 0: unknown
  uint64_t free_bytes;   // what could be had without swapping; 0: unknown
};

MachineMemory machine_memory(const std::vector<std::string> &groups = control_groups());

}  // namespace bonsai
