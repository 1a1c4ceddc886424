#include "plugins/cuda/compile/architecture.h"

#include <algorithm>

#include "plugins/common/failure.h"
#include "plugins/cuda/driver/platform.h"

namespace bonsai::cuda {

Architecture choose_architecture(int capability, std::span<const int> known) {
  if (known.empty() || std::find(known.begin(), known.end(), capability) != known.end()) {
    // 'a' opens what only Hopper has. No kernel uses it yet; wgmma is what the prompts' kernels would take from it. It
    // costs nothing, since what is compiled here runs on no other architecture anyway.
    return {fmt::format("sm_{}{}", capability, capability == 90 ? "a" : "")};
  }
  int newest = 0;
  for (const int candidate : known) {
    if (candidate < capability) newest = std::max(newest, candidate);
  }
  if (newest == 0) plugin::refuse("NVRTC compiles for no device as old as sm_{}: use an older one", capability);
  return {fmt::format("compute_{}", newest)};
}

std::vector<Architecture> usable_architectures(int capability) {
  std::vector<Architecture> usable = {choose_architecture(capability, {})};
  // From 9.0 on kernels may be launched before those ahead of them have ended, and wait for them: what is compiled for
  // an older device does not. Nor has it the products of single bits that are counted on from 8.0 on.
  const int oldest = capability >= kWaitingCapability  ? kWaitingCapability
                     : capability >= kBitMmaCapability ? kBitMmaCapability
                                                       : kOldestCapability;
  // Some of these never were: which ones NVRTC knew that compiled is not known here.
  for (int older = capability; older >= oldest; --older) usable.push_back({fmt::format("compute_{}", older)});
  return usable;
}

}  // namespace bonsai::cuda
