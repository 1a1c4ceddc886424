// x = rows of an embedding of the format BONSAI_FORMAT, decoded: bit for bit what core/quant makes of its blocks, but
// for what packing may change (layout/packed_matrix.h).
#include "matmul.cuh"

namespace bonsai::cuda {

// A row's place in a tile.
struct PackedRow {
  const uint8_t *record;  // of a segment
  uint32_t g, eighth;     // row g + 8 * eighth

  // Byte `i` of the four that lane t has in word `pair` (0: x or y, 1: z or w) of a quad.
  __device__ const uint8_t *byte(uint32_t plane, uint32_t quad, uint32_t t, uint32_t pair, uint32_t i) const {
    return record + plane + ((quad * kWarp + 4 * g + t) * 4 + 2 * pair + eighth) * 4 + i;
  }
  template <class T>
  __device__ T scale(uint32_t index) const {
    const uint8_t *scales = record + kLayout.scales_at() + g * kLayout.scale_bytes();
    return reinterpret_cast<const T *>(scales)[2 * index + eighth];
  }
  __device__ uint8_t integer(uint32_t index) const {
    return record[kLayout.integers_at() + g * kLayout.integer_bytes() + 2 * index + eighth];
  }
};

// `bits` bits of the code of a segment's column, out of a plane.
__device__ inline uint32_t code_bits(const PackedRow &row, uint32_t plane, uint32_t bits, uint32_t column) {
  const uint32_t j = column / 32, in_step = column % 32;
  const uint32_t t = kLayout.splits_steps() ? in_step % 16 / 4 : in_step / 8;
  const uint32_t pair = kLayout.splits_steps() ? in_step / 16 : in_step / 4 % 2;
  if (kLayout.bits == 1)
    return *row.byte(plane, column / 256, t, column / 128 % 2, column % 4) >> (j % 4 * 2 + pair) & 1;
  const uint32_t in_quad = 8 / bits;
  return *row.byte(plane, j / in_quad, t, pair, column % 4) >> j % in_quad * bits & ((1u << bits) - 1);
}

__device__ inline float half_at(const PackedRow &row, uint32_t plane, uint32_t column) {
  const uint32_t quad = column / 32 * 2 + column / 4 % 2, t = column % 32 / 8;
  return half_to_float(*reinterpret_cast<const uint16_t *>(row.byte(plane, quad, t, column % 4 / 2, column % 2 * 2)));
}

__device__ inline float fp8_to_float(uint32_t code) {
  if constexpr (kLayout.codes == Codes::kE5M2) return half_to_float(static_cast<uint16_t>(code << 8));
  return half_to_float(static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7F) << 7)) * 256.0f;  // see formats.cuh
}

// Products and sums in core/quant's order.
__device__ inline float decode(const PackedRow &row, uint32_t column) {
  const uint32_t group = column / kLayout.group, block = column / 256;
  if constexpr (kLayout.codes == Codes::kHalf) {
    return half_at(row, 0, column);
  } else if constexpr (kLayout.codes == Codes::kTwoHalves) {
    return half_at(row, 0, column) + half_at(row, kLayout.code_bytes(), column);
  } else if constexpr (kLayout.is_float()) {
    return fp8_to_float(code_bits(row, 0, 8, column)) * half_to_float(row.scale<uint16_t>(group));
  } else {
    int code = static_cast<int>(code_bits(row, 0, kLayout.bits, column));
    if constexpr (kLayout.high_bits > 0) {
      code |= static_cast<int>(code_bits(row, kLayout.code_bytes(), kLayout.high_bits, column)) << kLayout.bits;
    }
    if constexpr (kLayout.codes == Codes::kSigned) code = static_cast<int8_t>(code);
    if constexpr (kLayout.codes == Codes::kUneven) {
      code = static_cast<int8_t>(kUnevenNumbers[code / 4] >> code % 4 * 8);
    }
    if constexpr (kLayout.bits == 1) code *= 2;
    const float q = static_cast<float>(code - kLayout.offset);
    if constexpr (kLayout.scales == Scales::kFloat) {
      return row.scale<float>(group) * q;
    } else if constexpr (kLayout.scales == Scales::kHalf) {
      return q * half_to_float(row.scale<uint16_t>(group));
    } else if constexpr (kLayout.scales == Scales::kHalfAndMinimum) {
      return q * half_to_float(row.scale<uint16_t>(2 * group)) + half_to_float(row.scale<uint16_t>(2 * group + 1));
    } else if constexpr (kLayout.scales == Scales::kSignedBytes) {
      const float d = half_to_float(row.scale<uint16_t>(block));
      return d * static_cast<float>(static_cast<int8_t>(row.integer(group))) * q;
    } else {
      constexpr bool kShares = kLayout.scales == Scales::kNibbles;
      const uint32_t s = kShares ? row.integer(group) & 15 : row.integer(2 * group);
      const uint32_t m = kShares ? row.integer(group) >> 4 : row.integer(2 * group + 1);
      const float d = half_to_float(row.scale<uint16_t>(2 * block)) * static_cast<float>(s);
      const float minimum = half_to_float(row.scale<uint16_t>(2 * block + 1)) * static_cast<float>(m);
      return d * q - minimum;
    }
  }
}

// Block (token, segment); a thread decodes columns that are kEmbedThreads apart. Moves a row of weights for each token.
BONSAI_KERNEL(embed, EmbedArguments, kEmbedThreads, 1) {
  int32_t token = arguments.tokens[block_x()];
  if (token < 0) token = arguments.selected[-1 - token];
  const uint32_t part_row = static_cast<uint32_t>(token) - static_cast<uint32_t>(arguments.first_token);
  if (part_row >= arguments.rows) return;
  const uint32_t row = arguments.first_row + part_row, segment = block_y();
  const uint8_t *tile = static_cast<const uint8_t *>(arguments.weights) + row / kTileRows * arguments.tile_bytes;
  const PackedRow packed = {tile + segment * kLayout.record_bytes(), row % 8, row % kTileRows / 8};
  float scale = 1;
  if constexpr (kLayout.scales == Scales::kRow) {
    const uint32_t segments = (arguments.columns + kSegmentColumns - 1) / kSegmentColumns;
    scale = reinterpret_cast<const float *>(tile + segments * kLayout.record_bytes())[row % kTileRows];
  }
  float *x = arguments.x + uint64_t{block_x()} * arguments.columns;
  for (uint32_t i = thread(); i < kSegmentColumns; i += kEmbedThreads) {
    const uint32_t column = segment * kSegmentColumns + i;
    if (column < arguments.columns) x[column] = decode(packed, i) * scale;
  }
}

}  // namespace bonsai::cuda
