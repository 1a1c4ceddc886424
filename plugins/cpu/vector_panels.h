// The panels of a product's vectors (kernels/panels.h), where they lie in the caller's scratch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/matmul.h"
#include "plugins/cpu/threads.h"

namespace bonsai::cpu {

// Panels of all vectors, once for each kind that the product's matrices want.
class VectorPanels {
 public:
  VectorPanels() = default;

  // For the matrices that take their activations in `layout`. Kinds that there is no room for are left out: such
  // matrices are multiplied without. Weights in base 3, which are not, have one kind for a layout.
  VectorPanels(const KernelTable &kernels, const Product &product, ActivationLayout layout);

  bool empty() const { return n_ == 0; }

  // Those of a kind, which may be nullptr; nullptr: there are none.
  const std::byte *of(const PanelKind *kind) const;

  // From all vectors of the product, which are quantised unless the layout has them stay float, on all threads.
  void fill(Threads &threads, const Product &product, const std::byte *quantized_rows) const;

 private:
  // More kinds than formats share a layout.
  static constexpr size_t kMost = 6;
  struct OfKind {
    const PanelKind *kind;
    std::byte *begin;
  };

  std::array<OfKind, kMost> of_kinds_ = {};
  size_t n_ = 0;
};

}  // namespace bonsai::cpu
