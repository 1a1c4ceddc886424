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
constexpr size_t kHalfWordBytes = 2;

// A layout as a type, for code in which it is a constant.
template <CodeLayout kLayout>
struct Layout {
  static constexpr CodeLayout kValue = kLayout;
};

// visit(Layout<...>) for the layout of a format; Layout<CodeLayout{}> if it is not repacked.
template <class Visit>
auto with_layout(Format format, Packing packing, Visit visit) {
  if (packing == Packing::kTrits) {
    if (quant::traits(format).block_weights == kTrits256Layout.columns()) return visit(Layout<kTrits256Layout>());
    return visit(Layout<kTritsG128Layout>());
  }
  if (packing == Packing::kSignBytes) return visit(Layout<kSignBytesG128Layout>());
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
    case Format::kIQ4_NL:
      return visit(Layout<kIQ4_NLLayout>());
    case Format::kIQ4_XS:
      return visit(Layout<kIQ4_XSLayout>());
    case Format::kF8_E4M3:
    case Format::kF8_E5M2:
      return visit(Layout<kF8Layout>());
    default:
      return visit(Layout<CodeLayout{}>());
  }
}

// One row's places in its tile.
class Lane {
 public:
  Lane(CodeLayout layout, uint64_t blocks, uint64_t row)
      : layout_(layout),
        tile_(row / kTileRows),
        lane_(row % kTileRows),
        place_(TilePlace::find(layout, blocks, row / kTileRows)) {}

  size_t scale(size_t block, size_t scale) const {
    return place_.scales + block * place_.stride + (scale * kTileRows + lane_) * layout_.scale_bytes();
  }
  size_t integers(size_t block, size_t pair) const {
    return place_.codes + block * place_.stride + (pair * kTileRows + lane_) * kIntegersBytes;
  }
  size_t word(size_t block, size_t word) const {
    return place_.codes + block * place_.stride + kTileRows * layout_.integers() +
           (word * kTileRows + lane_) * kWordBytes;
  }
  // In strips: a piece of a word.
  size_t piece(size_t block, size_t word, size_t index) const {
    const SignPieces pieces = SignPieces::of(layout_);
    return place_.codes + block * place_.stride + word * layout_.strip_tiles * kTileRows * kWordBytes +
           index * pieces.stride + pieces.place(tile_ % 2 * kTileRows + lane_);
  }
  // In base 3: word `index` of a unit, and the byte behind the words.
  size_t trit_word(size_t block, size_t unit, size_t index) const {
    return place_.codes + block * place_.stride + unit * kTritUnitStride + index * kTritWordStride +
           lane_ * kWordBytes + tile_ % 2 * kHalfWordBytes;
  }
  size_t trit_rest(size_t block, size_t unit) const {
    return place_.rests + block * place_.stride + unit * kTritUnitStride + lane_ * 2 + tile_ % 2;
  }

 private:
  CodeLayout layout_;
  uint64_t tile_;
  size_t lane_;
  TilePlace place_;
};

// Copies kCount pieces from one next to the other to every 16th place. With the counts known, these are plain moves.
template <size_t kBytes, size_t kCount>
const std::byte *scatter(const std::byte *from, std::byte *to) {
  for (size_t i = 0; i < kCount; ++i) std::memcpy(to + i * kTileRows * kBytes, from + i * kBytes, kBytes);
  return from + kCount * kBytes;
}

// A packed block to its places.
template <CodeLayout kLayout>
void scatter_block(const Lane &lane, size_t index, const std::byte *block, std::byte *packed) {
  block = scatter<kLayout.scale_bytes(), kLayout.scales()>(block, packed + lane.scale(index, 0));
  block = scatter<kIntegersBytes, kLayout.integers() / 2>(block, packed + lane.integers(index, 0));
  if constexpr (kLayout.base_three) {
    for (size_t unit = 0; unit < kLayout.trit_units(); ++unit, block += kTritUnitBytes) {
      for (size_t i = 0; i < kTritUnitWords; ++i) {
        std::memcpy(packed + lane.trit_word(index, unit, i), block + i * kHalfWordBytes, kHalfWordBytes);
      }
      packed[lane.trit_rest(index, unit)] = block[kTritUnitWords * kHalfWordBytes];
    }
  } else if constexpr (kLayout.strip_tiles == 1) {
    scatter<kWordBytes, kLayout.words()>(block, packed + lane.word(index, 0));
  } else {
    constexpr SignPieces kPieces = SignPieces::of(kLayout);
    for (size_t word = 0; word < kLayout.words(); ++word) {
      for (size_t i = 0; i < kPieces.count(); ++i, block += kPieces.bytes) {
        std::memcpy(packed + lane.piece(index, word, i), block, kPieces.bytes);
      }
    }
  }
}

template <CodeLayout kLayout>
void pack_row(BlockForm form, size_t file_block_bytes, uint64_t blocks, uint64_t row, const PackArgs &args) {
  const Lane lane(kLayout, blocks, row);
  const std::byte *block = args.source + row * blocks * file_block_bytes;
  for (size_t i = 0; i < blocks; ++i, block += file_block_bytes) {
    std::byte packed[kMaxBlockBytes];
    if (form.from_file) form.from_file(block, packed);
    scatter_block<kLayout>(lane, i, form.from_file ? packed : block, args.packed);
  }
}

// A row that is missing.
template <CodeLayout kLayout>
void pack_nothing(uint64_t blocks, uint64_t row, std::byte *packed) {
  const Lane lane(kLayout, blocks, row);
  const std::byte zeros[kMaxBlockBytes] = {};
  for (size_t i = 0; i < blocks; ++i) scatter_block<kLayout>(lane, i, zeros, packed);
}

// What lies behind the last block of a tile that stands alone. Behind a strip's there is nothing.
void clear_padding(CodeLayout layout, uint64_t blocks, uint64_t tile, std::byte *packed) {
  const size_t strip = TilePlace::strip_bytes(layout, blocks), used = blocks * TilePlace::block_stride(layout);
  std::memset(packed + tile / layout.strip_tiles * strip + used, 0, strip - used);
}

// A row's packed block, from its lane.
void gather_block(CodeLayout layout, const Lane &lane, size_t index, const std::byte *packed, std::byte *block) {
  const auto take = [&](size_t from, size_t bytes) {
    std::memcpy(block, packed + from, bytes);
    block += bytes;
  };
  for (uint32_t i = 0; i < layout.scales(); ++i) take(lane.scale(index, i), layout.scale_bytes());
  for (uint32_t i = 0; i < layout.integers() / 2; ++i) take(lane.integers(index, i), kIntegersBytes);
  for (uint32_t unit = 0; layout.base_three && unit < layout.trit_units(); ++unit) {
    for (uint32_t i = 0; i < kTritUnitWords; ++i) take(lane.trit_word(index, unit, i), kHalfWordBytes);
    take(lane.trit_rest(index, unit), 1);
  }
  for (uint32_t i = 0; !layout.base_three && i < layout.words(); ++i) {
    if (layout.strip_tiles == 1) {
      take(lane.word(index, i), kWordBytes);
    } else {
      const SignPieces pieces = SignPieces::of(layout);
      for (size_t piece = 0; piece < pieces.count(); ++piece) take(lane.piece(index, i, piece), pieces.bytes);
    }
  }
}

}  // namespace

CodeLayout code_layout(Format format, Packing packing) {
  return with_layout(format, packing, [](auto layout) { return layout.kValue; });
}

ActivationLayout activation_layout(Format format) { return code_layout(format).activations; }

ActivationLayout activation_layout(const PackedMatrix &matrix) {
  return code_layout(matrix.format, matrix.packing).activations;
}

bool has_kernels(Format format) {
  switch (format) {
    case Format::kF32:
    case Format::kF16:
    case Format::kBF16:
      return true;
    default:
      return is_repacked(format);
  }
}

bool may_be_ternary(Format format) {
  return format == Format::kTQ1_0_G128 || format == Format::kTQ2_0_G128 || format == Format::kTQ1_0 ||
         format == Format::kTQ2_0;
}

bool is_repacked(Format format) { return code_layout(format).columns() != 0; }

uint64_t tile_count(uint64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

size_t packed_bytes(Format format, uint64_t rows, uint64_t columns, Packing packing) {
  if (!is_repacked(format)) return rows * quant::row_bytes(quant::traits(format), columns);
  const CodeLayout layout = code_layout(format, packing);
  const uint64_t strips = (tile_count(rows) + layout.strip_tiles - 1) / layout.strip_tiles;
  return strips * TilePlace::strip_bytes(layout, columns / layout.columns());
}

const std::byte *tile_begin(const PackedMatrix &matrix, uint64_t tile) {
  if (!is_repacked(matrix.format)) {
    return matrix.data + tile * kTileRows * quant::row_bytes(quant::traits(matrix.format), matrix.columns);
  }
  const CodeLayout layout = code_layout(matrix.format, matrix.packing);
  return matrix.data + TilePlace::find(layout, matrix.columns / layout.columns(), tile).scales;
}

ReadingPlace reading_place(const PackedMatrix &matrix, uint64_t tile, uint64_t tiles) {
  const std::byte *begin = tile_begin(matrix, tile);
  if (!is_repacked(matrix.format)) {
    return {begin, kTileRows * quant::row_bytes(quant::traits(matrix.format), matrix.columns), tiles};
  }
  const CodeLayout layout = code_layout(matrix.format, matrix.packing);
  return {begin, TilePlace::strip_bytes(layout, matrix.columns / layout.columns()), tiles};
}

void pack_tiles(const PackArgs &args) {
  const BlockForm form = block_form(args.format, args.packing);
  const size_t file_block_bytes = quant::traits(args.format).block_bytes;
  with_layout(args.format, args.packing, [&](auto layout) {
    constexpr CodeLayout kLayout = layout.kValue;
    if constexpr (kLayout.columns() > 0) {
      static_assert(kLayout.strip_tiles == 1 || TilePlace::block_stride(kLayout) % kPackedAlignment == 0);
      const uint64_t blocks = args.columns / kLayout.columns();
      const uint64_t tiles = tile_count(args.rows);
      for (uint64_t tile = args.first_tile; tile < args.last_tile; ++tile) {
        clear_padding(kLayout, blocks, tile, args.packed);
        const bool last = tile + 1 == tiles;  // what is missing in its strip goes with it
        const uint64_t end = last ? (tile / kLayout.strip_tiles + 1) * kLayout.strip_tiles : tile + 1;
        uint64_t row = tile * kTileRows;
        for (; row < std::min(args.rows, end * kTileRows); ++row) {
          pack_row<kLayout>(form, file_block_bytes, blocks, row, args);
        }
        for (; row < end * kTileRows; ++row) pack_nothing<kLayout>(blocks, row, args.packed);
      }
    }
  });
}

void decode_row(const PackedMatrix &matrix, uint64_t row, std::span<float> values) {
  assert(row < matrix.rows && values.size() == matrix.columns);
  if (!is_repacked(matrix.format)) {
    const quant::FormatTraits &traits = quant::traits(matrix.format);
    traits.decode(matrix.data + row * quant::row_bytes(traits, matrix.columns), values.data(), matrix.columns);
    return;
  }
  const CodeLayout layout = code_layout(matrix.format, matrix.packing);
  const BlockForm form = block_form(matrix.format, matrix.packing);
  const uint64_t blocks = matrix.columns / layout.columns();
  const Lane lane(layout, blocks, row);
  std::byte block[kMaxBlockBytes];
  for (size_t i = 0; i < blocks; ++i) {
    gather_block(layout, lane, i, matrix.data, block);
    form.decode(block, values.data() + i * layout.columns());
  }
}

size_t quantized_row_bytes(ActivationLayout layout, uint64_t columns) {
  const size_t scales = columns / layout.block * sizeof(float);
  const size_t multipliers = layout.most_multiplier > 0 ? columns / kActivationGroup * sizeof(GroupMultiplier) : 0;
  const size_t sums = columns / layout.sum_columns * (layout.has_wide_sums() ? sizeof(int32_t) : sizeof(int16_t));
  return round_up_to_vectors(columns + scales + multipliers + sums);
}

}  // namespace bonsai::cpu
