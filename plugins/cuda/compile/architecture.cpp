#include "plugins/cuda/compile/architecture.h"

#include <algorithm>

#include "plugins/common/failure.h"

namespace bonsai::cuda {

Architecture choose_architecture(int capability, std::span<const int> known) {
  if (known.empty() || std::find(known.begin(), known.end(), capability) != known.end()) {
    // 'a': with what only this architecture has, wgmma for one. Others gain nothing that the kernels use.
    return {fmt::format("sm_{}{}", capability, capability == 90 ? "a" : "")};
  }
  int newest = 0;
  for (const int candidate : known) {
    if (candidate < capability) newest = std::max(newest, candidate);
  }
  if (newest == 0) plugin::refuse("NVRTC compiles for no device as old as sm_{}: use an older one", capability);
  return {fmt::format("compute_{}", newest)};
}

}  // namespace bonsai::cuda
