// The control groups (version 2) that limit this process. https://docs.kernel.org/admin-guide/cgroup-v2.html
#pragma once

#include <string>
#include <vector>

namespace bonsai::cpu {

// Folders of files such as cpu.max and memory.max: the process's own group, and those around it up to `root`. A limit
// of each of them holds. A container has its own group at the root, and a path that means nothing there; a unit of
// systemd has it below. `membership` is what /proc/self/cgroup holds.
std::vector<std::string> control_groups(const std::string &root = "/sys/fs/cgroup",
                                        const std::string &membership = "/proc/self/cgroup");

}  // namespace bonsai::cpu
