#include "plugins/cpu/kernels/packed_matrix.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "plugins/cpu/kernels/packed_blocks.h"

namespace bonsai::cpu {
namespace {

using quant::Format;

constexpr size_t kIntegersBytes = 2;  // of two sub-blocks
constexpr size_t kWordBytes = 4;

size_t align_up(size_t bytes) { return (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment; }

// A layout as a type, for code in which it is a constant.
template <CodeLayout kLayout>
struct Layout {
  static constexpr CodeLayout kValue = kLayout;
};

// visit(Layout<...>) for the layout of a format; Layout<CodeLayout{}> if it is not repacked.
template <class Visit>
auto with_layout(Format format, Visit visit) {
  switch (format) {
    case Format::kQ8_0:
      return visit(Layout<kQ8_0Layout>());
    case Format::kQ4_0:
      return visit(Layout<kQ4_0Layout>());
    case Format::kQ4_1:
      return visit(Layout<kQ4_1Layout>());
    case Format::kQ5_0:
      return visit(Layout<kQ5_0Layout>());
    case Format::kQ5_1:
      return visit(Layout<kQ5_1Layout>());
    case Format::kQ1_0_G128:
      return visit(Layout<kQ1_0G128Layout>());
    case Format::kTQ2_0_G128:
    case Format::kTQ1_0_G128:
      return visit(Layout<kTernaryG128Layout>());
    case Format::kQ2_0_G64:
      return visit(Layout<kQ2_0G64Layout>());
    case Format::kTQ2_0:
    case Format::kTQ1_0:
      return visit(Layout<kTernary256Layout>());
    case Format::kQ2_K:
      return visit(Layout<kQ2_KLayout>());
    case Format::kQ3_K:
      return visit(Layout<kQ3_KLayout>());
    case Format::kQ4_K:
      return visit(Layout<kQ4_KLayout>());
    case Format::kQ5_K:
      return visit(Layout<kQ5_KLayout>());
    case Format::kQ6_K:
      return visit(Layout<kQ6_KLayout>());
    case Format::kQ8_K:
      return visit(Layout<kQ8_KLayout>());
    default:
      return visit(Layout<CodeLayout{}>());
  }
}

// Where things lie in a tile.
struct TileShape {
  CodeLayout layout;
  size_t file_block_bytes;
  size_t groups;         // blocks of a row
  size_t scales_bytes;   // of all groups, padded
  size_t integer_pairs;  // of a block
  size_t group_bytes;    // integers and codes of one group
  size_t tile_bytes;

  TileShape(Format format, uint64_t columns)
      : layout(code_layout(format)), file_block_bytes(quant::traits(format).block_bytes) {
    groups = columns / layout.columns();
    scales_bytes = align_up(used_scales_bytes());
    integer_pairs = layout.integers() / 2;
    group_bytes = kTileRows * (integer_pairs * kIntegersBytes + layout.words() * kWordBytes);
    tile_bytes = scales_bytes + groups * group_bytes;
  }

  size_t used_scales_bytes() const { return groups * kTileRows * layout.scales() * layout.scale_bytes(); }
  size_t scale_at(size_t group, size_t scale, size_t lane) const {
    return ((group * layout.scales() + scale) * kTileRows + lane) * layout.scale_bytes();
  }
  size_t integers_at(size_t group, size_t lane) const {
    return scales_bytes + group * group_bytes + lane * kIntegersBytes;
  }
  size_t words_at(size_t group, size_t lane) const {
    const size_t integers_bytes = integer_pairs * kTileRows * kIntegersBytes;
    return scales_bytes + group * group_bytes + integers_bytes + lane * kWordBytes;
  }
};

// Copies kCount pieces from one next to the other to every 16th place. With the counts known, these are plain moves.
template <size_t kBytes, size_t kCount>
const std::byte *scatter(const std::byte *from, std::byte *to) {
  for (size_t i = 0; i < kCount; ++i) std::memcpy(to + i * kTileRows * kBytes, from + i * kBytes, kBytes);
  return from + kCount * kBytes;
}

// One row in the file's blocks to its lane.
template <CodeLayout kLayout>
void pack_lane(const TileShape &shape, BlockForm form, const std::byte *row, std::byte *tile, size_t lane) {
  for (size_t group = 0; group < shape.groups; ++group, row += shape.file_block_bytes) {
    std::byte packed[kMaxBlockBytes];
    if (form.from_file) form.from_file(row, packed);
    const std::byte *block = form.from_file ? packed : row;
    block = scatter<kLayout.scale_bytes(), kLayout.scales()>(block, tile + shape.scale_at(group, 0, lane));
    block = scatter<kIntegersBytes, kLayout.integers() / 2>(block, tile + shape.integers_at(group, lane));
    scatter<kWordBytes, kLayout.words()>(block, tile + shape.words_at(group, lane));
  }
}

template <size_t kBytes>
void gather(const std::byte *from, size_t n, std::byte *to) {
  for (; n > 0; --n, from += kTileRows * kBytes, to += kBytes) std::memcpy(to, from, kBytes);
}

// A row's packed block, from its lane.
void gather_block(const TileShape &shape, const std::byte *tile, size_t group, size_t lane, std::byte *block) {
  const size_t scale_bytes = shape.layout.scale_bytes();
  for (uint32_t i = 0; i < shape.layout.scales(); ++i, block += scale_bytes) {
    std::memcpy(block, tile + shape.scale_at(group, i, lane), scale_bytes);
  }
  gather<kIntegersBytes>(tile + shape.integers_at(group, lane), shape.integer_pairs, block);
  block += shape.integer_pairs * kIntegersBytes;
  gather<kWordBytes>(tile + shape.words_at(group, lane), shape.layout.words(), block);
}

}  // namespace

CodeLayout code_layout(Format format) {
  return with_layout(format, [](auto layout) { return layout.kValue; });
}

ActivationLayout activation_layout(Format format) { return code_layout(format).activations; }

bool has_kernels(Format format) {
  switch (format) {
    case Format::kF32:
    case Format::kF16:
    case Format::kBF16:
    case Format::kF8_E4M3:
    case Format::kF8_E5M2:
      return true;
    default:
      return is_repacked(format);
  }
}

bool is_repacked(Format format) { return activation_layout(format).group != 0; }

uint64_t tile_count(uint64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

size_t packed_bytes(Format format, uint64_t rows, uint64_t columns) {
  if (!is_repacked(format)) return rows * quant::row_bytes(quant::traits(format), columns);
  return tile_count(rows) * TileShape(format, columns).tile_bytes;
}

void pack_tiles(const PackArgs &args) {
  const TileShape shape(args.format, args.columns);
  const BlockForm form = block_form(args.format);
  for (uint64_t tile = args.first_tile; tile < args.last_tile; ++tile) {
    std::byte *to = args.packed + tile * shape.tile_bytes;
    const uint64_t first_row = tile * kTileRows;
    const uint64_t lanes = std::min(kTileRows, args.rows - first_row);
    const size_t used_scales = shape.used_scales_bytes();
    std::memset(to + used_scales, 0, shape.scales_bytes - used_scales);
    if (lanes < kTileRows) std::memset(to, 0, shape.tile_bytes);
    with_layout(args.format, [&](auto layout) {
      for (uint64_t lane = 0; lane < lanes; ++lane) {
        const std::byte *row = args.source + (first_row + lane) * shape.groups * shape.file_block_bytes;
        pack_lane<layout.kValue>(shape, form, row, to, lane);
      }
    });
  }
}

void decode_row(const PackedMatrix &matrix, uint64_t row, std::span<float> values) {
  assert(row < matrix.rows && values.size() == matrix.columns);
  if (!is_repacked(matrix.format)) {
    const quant::FormatTraits &traits = quant::traits(matrix.format);
    traits.decode(matrix.data + row * quant::row_bytes(traits, matrix.columns), values.data(), matrix.columns);
    return;
  }
  const TileShape shape(matrix.format, matrix.columns);
  const BlockForm form = block_form(matrix.format);
  const std::byte *tile = matrix.data + row / kTileRows * shape.tile_bytes;
  std::byte block[kMaxBlockBytes];
  for (size_t group = 0; group < shape.groups; ++group) {
    gather_block(shape, tile, group, row % kTileRows, block);
    form.decode(block, values.data() + group * shape.layout.columns());
  }
}

size_t quantized_row_bytes(ActivationLayout layout, uint64_t columns) {
  return align_up(columns + columns / layout.group * sizeof(float) + columns / layout.sum_columns * sizeof(int16_t));
}

}  // namespace bonsai::cpu
