// Every kernel compiles for every architecture, and those in which time is spent keep to their registers: without a
// GPU.
#include "plugins/cuda/compile/units.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plugins/common/failure.h"
#include "plugins/cuda/compile/compiler.h"
#include "tests/plugins/cuda/compile/ptxas_log.h"

namespace bonsai::cuda {
namespace {

class KernelsOn : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!found_.nvrtc) GTEST_SKIP() << found_.reason;
    architecture_ = choose_architecture(GetParam(), found_.nvrtc->architectures);
    if (!architecture_.is_real()) {
      GTEST_SKIP() << "this NVRTC, " << found_.nvrtc->version << ", does not know compute capability " << GetParam();
    }
  }

  // One line for each thing that is wrong with a unit.
  std::vector<std::string> complaints_about(const Unit &unit) const {
    std::vector<std::string> complaints;
    const auto complain = [&](const std::string &what) { complaints.push_back(unit.name + ": " + what); };
    std::string log;
    try {
      compile(*found_.nvrtc, {.unit = unit, .architecture = architecture_, .extra_options = {"-Xptxas=-v"}}, &log);
    } catch (const plugin::Failure &failure) {
      return {failure.what() + std::string("\n") + log};
    }
    const auto kernels = read_ptxas_log(log);
    if (kernels.empty()) complain("no kernel");
    for (const HotKernel &hot : unit.hot) {
      const auto kernel = kernels.find(hot.name);
      if (kernel == kernels.end()) {
        complain("no kernel " + hot.name);
        continue;
      }
      const KernelNeeds &needs = kernel->second;
      if (needs.spill_bytes > 0) complain(hot.name + " spills " + std::to_string(needs.spill_bytes) + " bytes");
      if (needs.registers > hot.max_registers) {
        complain(hot.name + " takes " + std::to_string(needs.registers) + " registers, expected at most " +
                 std::to_string(hot.max_registers));
      }
    }
    return complaints;
  }

  NvrtcResult found_ = load_nvrtc(nvrtc_candidates(0));
  Architecture architecture_;
};

TEST_P(KernelsOn, CompileAndKeepToTheirRegisters) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::vector<std::string> complaints;
  const auto work = [&] {
    for (size_t i = next++; i < units().size(); i = next++) {
      const std::vector<std::string> found = complaints_about(units()[i]);
      const std::lock_guard lock(mutex);
      complaints.insert(complaints.end(), found.begin(), found.end());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  }
  for (const std::string &complaint : complaints) ADD_FAILURE() << architecture_.name << ": " << complaint;
}

INSTANTIATE_TEST_SUITE_P(Architectures, KernelsOn, testing::Values(75, 80, 86, 89, 90, 100, 120),
                         [](const auto &info) { return "sm_" + std::to_string(info.param); });

}  // namespace
}  // namespace bonsai::cuda
