// Where panels lie, for who fills and reads them. All always inline: the linker keeps one copy of a function, and it
// must not be one that a tier was compiled with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/packed_matrix.h"

namespace bonsai::cpu {

// Columns of all panels of quantised vectors, which stay in the second-level cache while all tiles are multiplied with
// them; and of a step.
constexpr uint32_t kPassColumns = 2048;

[[gnu::always_inline]] constexpr uint64_t steps_of_panel(uint64_t columns) {
  return (columns + kPassColumns - 1) / kPassColumns;
}

// From panel to panel: whole lines, as different threads fill them.
[[gnu::always_inline]] constexpr uint64_t panel_bytes(uint64_t blocks, size_t block_bytes) {
  return (blocks * block_bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
}

}  // namespace bonsai::cpu
