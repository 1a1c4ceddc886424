// Runs a call's outputs through SelectionRound and the kernels as a session does, on the emulator.
#pragma once

#include <cstdint>
#include <vector>

#include "plugins/cuda/selection.h"
#include "tests/plugins/cuda/emulator/emulator.h"
#include "tests/plugins/cuda/selection/expected.h"

namespace bonsai::cuda {

struct Setting {
  uint32_t vocab;
  uint32_t group_rows = 4;
  emulation::Order order = {};
  bool chains = true;  // false: the kernels are not told where selected tokens go
};

// rows[token] stands for what the head makes of a token: (vocab) logits, or hidden states. All buffers but the logits
// are filled with rubbish first, and none is written past its end, which the runner checks.
std::vector<Given> run(const Setting &setting, const std::vector<std::vector<float>> &rows,
                       const std::vector<Wanted> &wanted);

SelectionLimits limits_of(const Setting &setting, uint32_t max_outputs);

}  // namespace bonsai::cuda
