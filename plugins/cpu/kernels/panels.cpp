#include "plugins/cpu/kernels/panels.h"

#include <algorithm>

#include "plugins/cpu/kernels/panel_sizes.h"

namespace bonsai::cpu {
namespace {

uint64_t round_up_quotient(uint64_t all, uint64_t part) { return (all + part - 1) / part; }

}  // namespace

uint64_t panel_steps(const PanelKind &kind, uint32_t n, uint64_t columns) {
  return round_up_quotient(n, kind.vectors) * steps_of_panel(columns);
}

uint64_t panels_bytes(const PanelKind &kind, uint32_t n, uint64_t columns) {
  return round_up_quotient(n, kind.vectors) *
         (kind.head_bytes + panel_bytes(round_up_quotient(columns, kind.block_columns), kind.block_bytes));
}

uint64_t panels_room(const PanelKernel &kernel, uint32_t n, uint64_t columns) {
  uint64_t most = round_up_quotient(n, kPanelVectors) * panel_bytes(round_up_quotient(columns, 256), kernel.most_bytes);
  for (const PanelKind *kind : {kernel.of_floats, kernel.of_f8}) {
    if (kind) most = std::max(most, panels_bytes(*kind, n, columns));
  }
  return most;
}

}  // namespace bonsai::cpu
