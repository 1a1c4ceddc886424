#include "tests/plugins/cuda/compile/ptxas_log.h"

#include <algorithm>
#include <cstdlib>

namespace bonsai::cuda {
namespace {

// The text between `before` and `after`; empty if the line has them not.
std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  const size_t start = line.find(before);
  if (start == std::string_view::npos) return {};
  line.remove_prefix(start + before.size());
  return line.substr(0, line.find(after));
}

// The number in front of `unit`; 0 if there is none.
int number_before(std::string_view line, std::string_view unit) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  const size_t start = line.find_last_not_of("0123456789", end - 1);
  return std::atoi(std::string(line.substr(start + 1, end - start - 1)).c_str());
}

}  // namespace

std::map<std::string, KernelNeeds> read_ptxas_log(std::string_view log) {
  std::map<std::string, KernelNeeds> kernels;
  KernelNeeds *kernel = nullptr;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    const std::string_view name = between(line, "Compiling entry function '", "'");
    if (!name.empty()) kernel = &kernels[std::string(name)];
    if (!kernel) continue;
    kernel->spill_bytes += number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
    kernel->registers = std::max(kernel->registers, number_before(line, " registers"));
  }
  return kernels;
}

}  // namespace bonsai::cuda
