#include "core/base/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "core/base/proc.h"

namespace bonsai {

namespace {

// What a file of a control group says, if that is a number.
std::optional<uint64_t> read_bytes(const std::string &path) {
  uint64_t bytes = 0;
  if (!(std::ifstream(path) >> bytes)) return std::nullopt;
  return bytes;
}

// A control group's files: version 1 has other names for the same, and counts what is below a group apart.
struct Names {
  const char *most, *used, *inactive_file, *active_file;
};
constexpr Names kNames[] = {
    {"/memory.max", "/memory.current", "inactive_file", "active_file"},
    {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file", "total_active_file"},
};

// Pages of files, which make room for others when that is wanted.
uint64_t cached_bytes(const std::string &group, const Names &names) {
  std::ifstream file(group + "/memory.stat");
  std::string key;
  uint64_t sum = 0;
  for (uint64_t bytes = 0; file >> key >> bytes;) {
    if (key == names.inactive_file || key == names.active_file) sum += bytes;
  }
  return sum;
}

void apply_limit(const std::string &group, const Names &names, uint64_t total, MachineMemory &memory) {
  const auto most = read_bytes(group + names.most), used = read_bytes(group + names.used);
  if (!most || !used || *most >= total) return;
  const uint64_t kept = *used - std::min(*used, cached_bytes(group, names));
  memory.total_bytes = std::min(memory.total_bytes, *most);
  memory.free_bytes = std::min(memory.free_bytes, *most - std::min(*most, kept));
}

}  // namespace

MachineMemory machine_memory(const std::vector<std::string> &groups) {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  const uint64_t total = pages > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : 0;
  const uint64_t available_kib = std::strtoull(read_proc("/proc/meminfo", "MemAvailable").c_str(), nullptr, 10);
  MachineMemory memory = {total, available_kib * 1024};
  for (const std::string &group : groups) {
    for (const Names &names : kNames) apply_limit(group, names, total, memory);
  }
  return memory;
}

}  // namespace bonsai
