// Which architecture to compile for.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace bonsai::cuda {

struct Architecture {
  std::string
      name;  // "sm_90a"; "compute_120": PTX alone, which the driver compiles for a device that NVRTC does not know
  bool is_real() const { return name.starts_with("sm_"); }
};

// For a device's compute capability (10 major + minor), given those that NVRTC knows: the device's own, else the newest
// that is older than it, as PTX. None known: its own. Throws UNSUPPORTED if all that are known are newer than the
// device.
Architecture choose_architecture(int capability, std::span<const int> known);

// What a device of this compute capability runs, whichever NVRTC made it: the device's own, then PTX for ever older
// ones.
std::vector<Architecture> usable_architectures(int capability);

}  // namespace bonsai::cuda
