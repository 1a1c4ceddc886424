// How much memory there is.
#pragma once

#include <cstdint>
#include <string>

namespace bonsai::cpu {

// The machine's, or what the process's control group (version 2) leaves of it.
struct MachineMemory {
  uint64_t total_bytes;  // 0: unknown
  uint64_t free_bytes;   // what could be had without swapping; 0: unknown
};

// `group`: where the control group's files are.
MachineMemory machine_memory(const std::string &group = "/sys/fs/cgroup");

}  // namespace bonsai::cpu
