#include "plugins/cpu/kernels/packed_matrix.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace bonsai::cpu {
namespace {

using quant::Format;

constexpr size_t kScaleBytes = 2;
constexpr size_t kWordBytes = 4;
constexpr size_t kMaxBlockBytes = 34;

size_t align_up(size_t bytes) { return (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment; }

// Where things lie in a tile. All repacked formats are a scale followed by whole words of codes.
struct TileShape {
  size_t groups;       // blocks of a row
  size_t block_bytes;  // as in the file
  size_t words;        // 32-bit words of codes in a block
  size_t scales_bytes;
  size_t tile_bytes;

  TileShape(Format format, uint64_t columns) {
    const quant::FormatTraits &traits = quant::traits(format);
    groups = columns / traits.block_weights;
    block_bytes = traits.block_bytes;
    words = (block_bytes - kScaleBytes) / kWordBytes;
    scales_bytes = align_up(groups * kTileRows * kScaleBytes);
    tile_bytes = scales_bytes + groups * words * kTileRows * kWordBytes;
  }

  size_t scale_at(size_t group, size_t lane) const { return (group * kTileRows + lane) * kScaleBytes; }
  size_t word_at(size_t group, size_t word, size_t lane) const {
    return scales_bytes + ((group * words + word) * kTileRows + lane) * kWordBytes;
  }
};

// Copies one row of file blocks into its lane of a tile.
template <size_t kWords>
void pack_lane(const TileShape &shape, const std::byte *row, std::byte *tile, size_t lane) {
  for (size_t group = 0; group < shape.groups; ++group, row += shape.block_bytes) {
    std::memcpy(tile + shape.scale_at(group, lane), row, kScaleBytes);
    std::byte *to = tile + shape.word_at(group, 0, lane);
    for (size_t word = 0; word < kWords; ++word) {
      std::memcpy(to + word * kTileRows * kWordBytes, row + kScaleBytes + word * kWordBytes, kWordBytes);
    }
  }
}

// With the number of words known, the copies of a block are a few plain moves.
using PackLane = void (*)(const TileShape &, const std::byte *, std::byte *, size_t);

PackLane pack_lane_of(size_t words) {
  switch (words) {
    case 4:
      return pack_lane<4>;
    case 8:
      return pack_lane<8>;
    default:
      assert(false && "a format with another block size needs its case here");
      return nullptr;
  }
}

}  // namespace

ActivationLayout activation_layout(Format format) {
  switch (format) {
    case Format::kQ8_0:
      return {.group = 32, .code_bits = 8};
    case Format::kQ4_0:
      return {.group = 32, .code_bits = 4};
    case Format::kQ1_0_G128:
      return {.group = 128, .code_bits = 1};
    case Format::kTQ2_0_G128:
      return {.group = 128, .code_bits = 2};
    case Format::kQ2_0_G64:
      return {.group = 64, .code_bits = 2};
    default:
      break;
  }
  return {};
}

bool has_kernels(Format format) { return is_repacked(format) || quant::traits(format).block_weights == 1; }

bool is_repacked(Format format) { return activation_layout(format).group != 0; }

uint64_t tile_count(uint64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

size_t packed_bytes(Format format, uint64_t rows, uint64_t columns) {
  if (!is_repacked(format)) return rows * quant::row_bytes(quant::traits(format), columns);
  return tile_count(rows) * TileShape(format, columns).tile_bytes;
}

void pack_tiles(const PackArgs &args) {
  const TileShape shape(args.format, args.columns);
  const PackLane pack = pack_lane_of(shape.words);
  const size_t row_bytes = shape.groups * shape.block_bytes;
  for (uint64_t tile = args.first_tile; tile < args.last_tile; ++tile) {
    std::byte *to = args.packed + tile * shape.tile_bytes;
    const uint64_t first_row = tile * kTileRows;
    const uint64_t lanes = std::min(kTileRows, args.rows - first_row);
    const size_t used_scales = shape.groups * kTileRows * kScaleBytes;
    std::memset(to + used_scales, 0, shape.scales_bytes - used_scales);
    if (lanes < kTileRows) std::memset(to, 0, shape.tile_bytes);
    for (uint64_t lane = 0; lane < lanes; ++lane) {
      pack(shape, args.source + (first_row + lane) * row_bytes, to, lane);
    }
  }
}

void decode_row(const PackedMatrix &matrix, uint64_t row, std::span<float> values) {
  assert(row < matrix.rows && values.size() == matrix.columns);
  const quant::FormatTraits &traits = quant::traits(matrix.format);
  if (!is_repacked(matrix.format)) {
    traits.decode(matrix.data + row * quant::row_bytes(traits, matrix.columns), values.data(), matrix.columns);
    return;
  }
  const TileShape shape(matrix.format, matrix.columns);
  const std::byte *tile = matrix.data + row / kTileRows * shape.tile_bytes;
  const size_t lane = row % kTileRows;
  std::byte block[kMaxBlockBytes];
  for (size_t group = 0; group < shape.groups; ++group) {
    std::memcpy(block, tile + shape.scale_at(group, lane), kScaleBytes);
    for (size_t word = 0; word < shape.words; ++word) {
      std::memcpy(block + kScaleBytes + word * kWordBytes, tile + shape.word_at(group, word, lane), kWordBytes);
    }
    traits.decode(block, values.data() + group * traits.block_weights, traits.block_weights);
  }
}

size_t quantized_row_bytes(ActivationLayout layout, uint64_t columns) {
  return align_up(columns + columns / layout.group * (sizeof(float) + sizeof(int32_t)));
}

}  // namespace bonsai::cpu
