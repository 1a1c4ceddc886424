// What is wrong with units of kernels on an architecture: those that do not compile, spill, or take too many registers.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "plugins/cuda/compile/units.h"

namespace bonsai::cuda {

// The compute capabilities that the tests compile for, 10 major + minor.
inline constexpr std::array<int, 7> kTestedCapabilities = {75, 80, 86, 89, 90, 100, 120};

struct UnitCheck {
  std::string skipped;                  // why nothing was checked: no NVRTC, or one that is too old
  std::vector<std::string> complaints;  // a line for each thing that is wrong
};

// Compiles on all cores.
UnitCheck check_units(int capability, std::span<const Unit *const> wanted);

}  // namespace bonsai::cuda
