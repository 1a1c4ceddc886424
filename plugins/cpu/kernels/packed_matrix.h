// Weights in the order in which the matrix kernels read them, and the shape of the activations that go with them.
//
// Formats with codes, FP8 among them, are repacked: lane = row. A tile is 16 rows; its blocks follow each other, so
// that it is one stream of memory. code_layout.h says what a row's block holds, and a tile's has:
//   scales    (scales, 16) binary16, Q8_K: float
//   integers  (integers / 2, 16, 2) bytes: of each row, those of two sub-blocks next to each other
//   codes     (words, 16) 32-bit words: the same word of each row's block
// A 64-byte vector of words holds 32 / bits columns of 16 rows, and byte j of a word 8 / bits of them: the kernel takes
// 4 columns at a time, one from each byte, by shifting and masking. Which columns those are is the format's
// ActivationOrder: where the file's bit order will do, quantisation puts the activations into that order, so that
// packing moves whole words. A tile starts on a 64-byte boundary; where a block has 32 bytes of scales, every second
// one's codes do not. Rows that are missing in the last tile or strip have scale 0.
//
// One-bit weights lie in strips of 8 tiles, so that a table of sums that is in registers serves 128 rows. For each
// block: the scales of the 8 tiles; then for each group of 32 columns and each pair of tiles, in two vectors, the lower
// 16 bits of the words and the upper ones, those of the first tile in the even places and those of the second in the
// odd ones. With Packing::kSignBytes these are four vectors of 32 bytes, byte i of each word in vector i: so that they
// lie in those places again once AVX2 has interleaved two such vectors in its halves.
//
// Ternary weights in base 3 (Packing::kTrits) lie in such strips too, as code_layout.h says. For each block: the scales
// of the 8 tiles; then for each unit of 128 columns the 13 words of 16 bits, of each pair of tiles a vector, and half a
// vector of bytes. TQ1_0_G128 and TQ2_0_G128 take 29 bytes a block then, TQ1_0 and TQ2_0 56.
//
// The packed size is the file's, but for the padding and for formats whose codes or integers do not lie in whole words
// and bytes in the file; in bytes a block, with Packing::kUsual or kTernary:
//   TQ1_0_G128 28 -> 34   TQ1_0 54 -> 66   Q3_K 110 -> 114   Q4_K 144 -> 148   Q5_K 176 -> 180   Q8_K 292 -> 260
//   IQ4_XS 136 -> 138
//
// Other float formats stay row-major as they come, and may be read where the caller has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/quant/format.h"
#include "plugins/cpu/kernels/code_layout.h"

namespace bonsai::cpu {

constexpr uint64_t kTileRows = 16;
constexpr size_t kPackedAlignment = 64;

// The pieces of a row's word in a strip: how many bytes each has, how far it is from one to the next, and where in a
// vector they lie for row `in_pair` of a pair of tiles.
struct SignPieces {
  size_t bytes, stride;

  static constexpr SignPieces of(CodeLayout layout) {
    return layout.sign_bytes ? SignPieces{1, 2 * kTileRows} : SignPieces{2, kPackedAlignment};
  }
  constexpr size_t count() const { return 4 / bytes; }
  constexpr size_t place(uint64_t in_pair) const {
    const size_t lane = in_pair % kTileRows * 2 + in_pair / kTileRows;
    return bytes == 2 ? lane * 2 : lane / 8 % 2 * 16 + lane / 16 * 8 + lane % 8;
  }
};

constexpr size_t round_up_to_vectors(size_t bytes) {
  return (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
}

// Strips of codes in base 3: words of 16 bits lie 4 vectors apart, and units follow each other.
constexpr size_t kTritWordStride = 4 * kPackedAlignment;
constexpr size_t kTritRestsAt = kTritUnitWords * kTritWordStride;
constexpr size_t kTritUnitStride = kTritRestsAt + 2 * kPackedAlignment;

// Where the parts of a tile's first block lie in a packed matrix, in bytes, and how far it is to the next block's.
// Always inline: the linker keeps one copy of a function, and it must not be one that a tier was compiled with.
struct TilePlace {
  size_t scales, codes;  // codes: with the integers before them
  size_t rests;          // of codes in base 3: the bytes behind the words
  size_t stride;

  [[gnu::always_inline]] static constexpr TilePlace find(CodeLayout layout, uint64_t blocks, uint64_t tile) {
    const size_t scales = kTileRows * layout.scales() * layout.scale_bytes();
    const size_t begin = tile / layout.strip_tiles * strip_bytes(layout, blocks);
    const uint64_t in_strip = tile % layout.strip_tiles, pair = in_strip / 2;
    const size_t codes = begin + layout.strip_tiles * scales;
    return {.scales = begin + in_strip * scales,
            .codes = codes + pair * (layout.base_three ? 1 : 2) * kPackedAlignment,
            .rests = layout.base_three ? codes + kTritRestsAt + pair * kPackedAlignment / 2 : 0,
            .stride = block_stride(layout)};
  }

  // From block to block.
  [[gnu::always_inline]] static constexpr size_t block_stride(CodeLayout layout) {
    return layout.strip_tiles * kTileRows * size_t{layout.block_bytes()};
  }

  // Of a strip, which has no padding, or of a tile that stands alone.
  [[gnu::always_inline]] static constexpr size_t strip_bytes(CodeLayout layout, uint64_t blocks) {
    return round_up_to_vectors(blocks * block_stride(layout));
  }
};

// One matrix of one format, as the kernels see it. Whoever makes it owns the memory.
struct PackedMatrix {
  quant::Format format = quant::Format::kF32;
  uint64_t rows = 0;
  uint64_t columns = 0;             // a multiple of the format's block
  const std::byte *data = nullptr;  // packed tiles, aligned to kPackedAlignment; not repacked: rows, any alignment
  Packing packing = Packing::kUsual;
};

// How a format takes its activations, packed as usual.
ActivationLayout activation_layout(quant::Format format);

// How a matrix takes them.
ActivationLayout activation_layout(const PackedMatrix &matrix);

// Whether the kernels take matrices of this format.
bool has_kernels(quant::Format format);

// Whether the format is repacked; if not, the kernels read the file's rows.
bool is_repacked(quant::Format format);

// Whether a matrix of this format may have Packing::kTrits or kTernary: it has, or has room for, codes of 0 to 2. Where
// the format counts codes of 3 (FormatTraits::count_code3), there must be none.
bool may_be_ternary(quant::Format format);

// Bytes of a packed matrix; of the rows as they are if the format is not repacked.
size_t packed_bytes(quant::Format format, uint64_t rows, uint64_t columns, Packing packing = Packing::kUsual);

uint64_t tile_count(uint64_t rows);

// Where reading a tile's rows begins.
const std::byte *tile_begin(const PackedMatrix &matrix, uint64_t tile);

// Weights that are read one after the other: where, at some tile, or nowhere; how far it is there from one strip, or
// tile of a format without strips, to the next one; and how many tiles a call is likely to read there, at most.
struct ReadingPlace {
  const std::byte *begin = nullptr;
  size_t strip_bytes = 0;
  uint64_t tiles = 0;
};
ReadingPlace reading_place(const PackedMatrix &matrix, uint64_t tile, uint64_t tiles);

// Packs tiles [first_tile, last_tile) of a repacked format from `source`, (rows, columns) in the file's blocks with any
// alignment, into `packed`, the start of the whole packed matrix. Different ranges may be packed at the same time.
struct PackArgs {
  quant::Format format;
  uint64_t rows;
  uint64_t columns;
  const std::byte *source;
  std::byte *packed;
  uint64_t first_tile;
  uint64_t last_tile;
  Packing packing = Packing::kUsual;
};
void pack_tiles(const PackArgs &args);

// Decodes one row of a packed (or float) matrix: the row of an embedding. `values` has `columns` elements.
void decode_row(const PackedMatrix &matrix, uint64_t row, std::span<float> values);

// Bytes of one row of quantised activations, of `columns` in whole blocks: codes in the kernel's order; a float scale
// for each block; a GroupMultiplier for each group, if the layout has any; the sum of each layout.sum_columns codes,
// times that integer, in 32 bits if they are wide and in 16 if not. The whole is padded to 64 bytes.
size_t quantized_row_bytes(ActivationLayout layout, uint64_t columns);

}  // namespace bonsai::cpu
