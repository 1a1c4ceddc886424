// Activations on their way into a product: normed or gated, then packed in the forms that the weights take.
#include "activation_packing.cuh"

namespace bonsai::cuda {

// Packs this block's chunk of a token's columns.
template <class Source, class Arguments>
__device__ inline void pack_chunk(const Source &source, const Arguments &arguments) {
  const uint32_t padded = (arguments.columns + kSegmentColumns - 1) / kSegmentColumns * kSegmentColumns;
  const uint32_t begin = block_y() * arguments.chunk_columns, left = padded - begin;
  const uint32_t end = begin + (left < arguments.chunk_columns ? left : arguments.chunk_columns);
  pack(source, {arguments.packed, arguments.y, block_x(), arguments.columns, padded}, begin, end);
}

// y = weight * x / sqrt(mean(x^2) + eps). Block (token, chunk). Each block reads the whole row, a warp's first columns
// beside it and their weights before, and the rest of its own part once more; writes its part in the forms asked for.
BONSAI_EARLY_KERNEL(rms_norm_quantize, QuantizeArguments, kActivationThreads, 2) {
  const uint32_t chunk = block_y() * arguments.chunk_columns, columns = arguments.columns;
  const uint32_t column = chunk + warp() * kWarpColumns + lane() * kLaneColumns;
  const FourFloats weight = load_four(arguments.weight, column, columns);
  const uint32_t row = arguments.picked ? arguments.picked[block_x()] : block_x();
  wait_for_kernels_ahead();
  const float *x = arguments.x + row * arguments.x_stride;
  const FourFloats own = load_four(x, column, columns);
  const Normed normed = {x, arguments.weight, columns, norm_scale(x, columns, arguments.eps)};
  pack_chunk(HeldNormed{normed, column, own, weight}, arguments);
}

// x, packed. Block (token, chunk). Reads each number once (halves: the row once more) and writes the forms.
BONSAI_KERNEL(quantize, QuantizeArguments, kActivationThreads, 2) {
  const float *x = arguments.x + block_x() * arguments.x_stride;
  pack_chunk(Plain{x, arguments.columns}, arguments);
}

// silu(gate) * up, packed. Block (token, chunk). Reads each number once (halves: the rows once more).
BONSAI_KERNEL(swiglu_quantize, SwigluQuantizeArguments, kActivationThreads, 2) {
  const float *gate = arguments.gate_up + uint64_t{block_x()} * 2 * arguments.columns;
  pack_chunk(Gated{gate, gate + arguments.columns, arguments.columns}, arguments);
}

}  // namespace bonsai::cuda
