#include "plugins/cpu/kernels/panels.h"

#include "plugins/cpu/kernels/panel_sizes.h"

namespace bonsai::cpu {

uint64_t panel_count(uint32_t n) { return (n + kPanelVectors - 1) / kPanelVectors; }

uint64_t panel_steps(uint32_t n, uint64_t columns) { return panel_count(n) * steps_of_panel(columns); }

uint64_t panels_bytes(const PanelKind &kind, uint32_t n, uint64_t columns) {
  return panel_count(n) * panel_bytes(columns / kind.block_columns, kind.block_bytes);
}

uint64_t panels_room(const PanelKernel &kernel, uint32_t n, uint64_t columns) {
  return panel_count(n) * panel_bytes((columns + 255) / 256, kernel.most_bytes);
}

}  // namespace bonsai::cpu
