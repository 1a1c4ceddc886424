#include "plugins/cuda/packing.h"

#include "plugins/cuda/device.h"
#include "plugins/cuda/kernels/activation_arguments.h"

namespace bonsai::cuda {
namespace {

constexpr const char *kUnit = "activations";

ActivationPlan plan(const Device &device, const RowsToPack &rows) {
  return plan_activations(rows.n, rows.columns, static_cast<uint32_t>(device.description().multiprocessors));
}

LaunchShape shape(const ActivationPlan &plan, uint64_t n) {
  return {.grid = {static_cast<unsigned>(n), plan.chunks, 1}, .threads = kActivationThreads};
}

}  // namespace

void pack_rows(Device &device, const RowsToPack &rows) {
  const ActivationPlan chosen = plan(device, rows);
  const QuantizeArguments arguments = {.x = rows.x,
                                       .picked = rows.picked,
                                       .weight = rows.norm,
                                       .y = rows.y,
                                       .packed = rows.to,
                                       .x_stride = rows.columns,
                                       .columns = static_cast<uint32_t>(rows.columns),
                                       .chunk_columns = chosen.chunk_columns,
                                       .eps = rows.eps};
  device.launch(kUnit, rows.norm ? "rms_norm_quantize" : "quantize", shape(chosen, rows.n), arguments);
}

void pack_swiglu(Device &device, const RowsToPack &rows) {
  const ActivationPlan chosen = plan(device, rows);
  const SwigluQuantizeArguments arguments = {.gate_up = rows.x,
                                             .y = rows.y,
                                             .packed = rows.to,
                                             .columns = static_cast<uint32_t>(rows.columns),
                                             .chunk_columns = chosen.chunk_columns};
  device.launch(kUnit, "swiglu_quantize", shape(chosen, rows.n), arguments);
}

}  // namespace bonsai::cuda
