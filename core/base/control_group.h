// The control groups that limit this process: of version 2 (https://docs.kernel.org/admin-guide/cgroup-v2.html), and of
// version 1, which has a hierarchy of its own for each controller (https://docs.kernel.org/admin-guide/cgroup-v1).
#pragma once

#include <string>
#include <vector>

namespace bonsai {

// Folders of files such as cpu.max and memory.max: the process's own group, and those around it up to `root`; then
// those of version 1 that it is in, up to ROOT/cpu (cpu.cfs_quota_us) and ROOT/memory (memory.limit_in_bytes). A limit
// of each of them holds. A container has its own group at the root, and a path that means nothing there; a unit of
// systemd has it below. `membership` is what /proc/self/cgroup holds.
std::vector<std::string> control_groups(const std::string &root = "/sys/fs/cgroup",
                                        const std::string &membership = "/proc/self/cgroup");

}  // namespace bonsai
