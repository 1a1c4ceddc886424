#include "plugins/cpu/vector_panels.h"

namespace bonsai::cpu {

VectorPanels::VectorPanels(const KernelTable &kernels, const Product &product, ActivationLayout layout) {
  if (!kernels.panels.kind_of || !product.activations.panels || !product.activations.many) return;
  uint64_t bytes = 0;
  for (const MatrixRows &rows : product.rows) {
    if (activation_layout(*rows.matrix) != layout) continue;
    const PanelKind *kind = kernels.panels.kind_of(*rows.matrix, product.n);
    if (!kind || of(kind)) continue;
    const uint64_t of_kind = panels_bytes(*kind, product.n, product.columns);
    if (n_ == kMost || bytes + of_kind > product.activations.panels_bytes) continue;
    of_kinds_[n_++] = {kind, product.activations.panels + bytes};
    bytes += of_kind;
  }
}

const std::byte *VectorPanels::of(const PanelKind *kind) const {
  for (size_t i = 0; i < n_; ++i) {
    if (of_kinds_[i].kind == kind) return of_kinds_[i].begin;
  }
  return nullptr;
}

void VectorPanels::fill(Threads &threads, const Product &product, const std::byte *quantized_rows) const {
  for (size_t i = 0; i < n_; ++i) {
    const auto &of_kind = of_kinds_[i];
    const uint64_t n_steps = panel_steps(*of_kind.kind, product.n, product.columns);
    threads.each_range(n_steps, 1, [&](uint64_t begin, uint64_t end, int) {
      of_kind.kind->fill({.quantized_rows = quantized_rows,
                          .x = product.x,
                          .x_stride = product.x_stride,
                          .n = product.n,
                          .columns = product.columns,
                          .begin = begin,
                          .end = end,
                          .panels = of_kind.begin});
    });
  }
}

}  // namespace bonsai::cpu
