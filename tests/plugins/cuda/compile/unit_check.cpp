#include "tests/plugins/cuda/compile/unit_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "plugins/common/failure.h"
#include "plugins/cuda/compile/compiler.h"
#include "plugins/cuda/compile/private_directory.h"
#include "plugins/cuda/driver/driver.h"
#include "tests/plugins/cuda/compile/ptxas_log.h"

namespace bonsai::cuda {
namespace {

// What ptxas said of units, kept in the build tree by all that it depends on: only kernels that have changed are
// compiled.
class Logs {
 public:
  Logs(const Nvrtc &nvrtc) : nvrtc_(nvrtc), directory_(PrivateDirectory::make(BONSAI_BINARY_DIR "/tests/ptxas-logs")) {}

  // Throws Failure if the unit does not compile.
  std::string of(const Unit &unit, const Architecture &architecture) const {
    const CompileJob job = {.unit = unit, .architecture = architecture, .extra_options = {"-Xptxas=-v"}};
    const std::string name = fmt::format("{}.nvrtc-{}", hex(digest_of(job)), nvrtc_.version);
    if (const auto kept = directory_.read(name, 1 << 20)) return *kept;
    std::string log;
    compile(nvrtc_, job, &log);
    directory_.write(name, log);
    return log;
  }

 private:
  const Nvrtc &nvrtc_;
  PrivateDirectory directory_;
};

// One line for each thing that is wrong with a unit.
std::vector<std::string> complaints_about(const Unit &unit, const Architecture &architecture, const Logs &logs) {
  std::map<std::string, KernelNeeds> kernels;
  try {
    kernels = read_ptxas_log(logs.of(unit, architecture));
  } catch (const plugin::Failure &failure) {
    return {failure.what()};
  }
  std::vector<std::string> complaints;
  if (kernels.empty()) complaints.push_back(fmt::format("{}: no kernel", unit.name));
  for (const HotKernel &hot : unit.hot) {
    const auto kernel = kernels.find(hot.name);
    if (kernel == kernels.end()) {
      complaints.push_back(fmt::format("{}: no kernel {}", unit.name, hot.name));
      continue;
    }
    const auto [registers, spill_bytes] = kernel->second;
    if (spill_bytes > hot.max_spill_bytes) {
      complaints.push_back(fmt::format("{}: {} spills {} bytes, expected at most {}", unit.name, hot.name, spill_bytes,
                                       hot.max_spill_bytes));
    }
    if (registers <= hot.max_registers) continue;
    complaints.push_back(fmt::format("{}: {} takes {} registers, expected at most {}", unit.name, hot.name, registers,
                                     hot.max_registers));
  }
  return complaints;
}

}  // namespace

UnitCheck check_units(int capability, std::span<const Unit *const> wanted) {
  const NvrtcResult found = NvrtcSearch(nvrtc_candidates(0)).proved();
  if (!found.nvrtc) return {.skipped = found.reason, .complaints = {}};
  const Architecture architecture = choose_architecture(capability, found.nvrtc->architectures);
  if (!architecture.is_real()) {
    return {.skipped = fmt::format("NVRTC {} does not know compute capability {}", version_name(found.nvrtc->version),
                                   capability),
            .complaints = {}};
  }
  const Logs logs(*found.nvrtc);
  std::atomic<size_t> next = 0;
  std::vector<std::vector<std::string>> complaints(wanted.size());
  const auto work = [&] {
    for (size_t i = next++; i < wanted.size(); i = next++) {
      complaints[i] = complaints_about(*wanted[i], architecture, logs);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  }
  UnitCheck check;
  for (const auto &of_unit : complaints) {
    for (const std::string &complaint : of_unit) check.complaints.push_back(architecture.name + ": " + complaint);
  }
  return check;
}

}  // namespace bonsai::cuda
