// Weights in the order in which the matrix kernels read them, and the shape of the activations that go with them.
//
// Formats with integer codes are repacked: lane = row. A tile is 16 rows; its groups (the format's blocks) follow each
// other, first all scales, then for each group its integers and codes. code_layout.h says what a row's block holds:
//   scales    (groups, scales, 16) binary16, Q8_K: float; the whole padded to 64 bytes
//   integers  (integers / 2, 16, 2) bytes: of each row, those of two sub-blocks next to each other
//   codes     (words, 16) 32-bit words: the same word of each row's block
// A 64-byte vector of words holds 32 / bits columns of 16 rows, and byte j of a word 8 / bits of them: the kernel takes
// 4 columns at a time, one from each byte, by shifting and masking. Which columns those are is the format's
// ActivationOrder: where the file's bit order will do, quantisation puts the activations into that order, so that
// packing moves whole words. A tile starts on a 64-byte boundary. Rows that are missing in the last tile have scale 0.
//
// The packed size is the file's, but for the padding and for formats whose codes or integers do not lie in whole words
// and bytes in the file; in bytes a block:
//   TQ1_0_G128 28 -> 34   TQ1_0 54 -> 66   Q3_K 110 -> 114   Q4_K 144 -> 148   Q5_K 176 -> 180   Q8_K 292 -> 260
//
// Float formats stay row-major as they come, and may be read where the caller has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/quant/format.h"
#include "plugins/cpu/kernels/code_layout.h"

namespace bonsai::cpu {

constexpr uint64_t kTileRows = 16;
constexpr size_t kPackedAlignment = 64;

// One matrix of one format, as the kernels see it. Whoever makes it owns the memory.
struct PackedMatrix {
  quant::Format format = quant::Format::kF32;
  uint64_t rows = 0;
  uint64_t columns = 0;             // a multiple of the format's block
  const std::byte *data = nullptr;  // packed tiles, aligned to kPackedAlignment; float formats: rows, any alignment
};

// How a format takes its activations.
ActivationLayout activation_layout(quant::Format format);

// Whether the kernels take matrices of this format.
bool has_kernels(quant::Format format);

// Whether the format is repacked; if not, the kernels read the file's rows.
bool is_repacked(quant::Format format);

// Bytes of a packed matrix; of the rows as they are if the format is not repacked.
size_t packed_bytes(quant::Format format, uint64_t rows, uint64_t columns);

uint64_t tile_count(uint64_t rows);

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
};
void pack_tiles(const PackArgs &args);

// Decodes one row of a packed (or float) matrix: the row of an embedding. `values` has `columns` elements.
void decode_row(const PackedMatrix &matrix, uint64_t row, std::span<float> values);

// Bytes of one row of quantised activations: `columns` codes in the kernel's order, then a float scale for each group,
// then the int16 sum of each layout.sum_columns codes; the whole padded to 64 bytes. `columns` is a multiple of
// layout.group.
size_t quantized_row_bytes(ActivationLayout layout, uint64_t columns);

}  // namespace bonsai::cpu
