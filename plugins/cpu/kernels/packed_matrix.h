// Weights in the order in which the matrix kernels read them, and the shape of the activations that go with them.
//
// Formats with integer codes are repacked: lane = row. A tile is 16 rows; its groups (the format's blocks) follow each
// other, first all scales, then all codes:
//   scales  (groups, 16) binary16, as in the file; the whole padded to 64 bytes
//   codes   (groups, vectors, 16) 32-bit words: word v of each row's codes, as the file holds them
// Such a 64-byte vector holds 32 / bits columns of 16 rows, and byte j of a word 8 / bits of them: the kernel takes 4
// columns at a time, one from each byte, by shifting and masking. Which columns those are is the format's own bit
// order; quantisation puts the activations into that order, so that packing moves whole words. A tile starts on a
// 64-byte boundary. Rows that are missing in the last tile have scale 0. The packed size is the file's, but for the
// padding.
//
// Float formats stay row-major as they come, and may be read where the caller has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/quant/format.h"

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

// How a format takes its activations. Two formats whose layouts are equal share quantised activations.
struct ActivationLayout {
  uint32_t group = 0;      // columns that share a scale; 0: activations stay float
  uint32_t code_bits = 0;  // bits of a weight's code, which decide the order of the activation codes; 0: float
  bool operator==(const ActivationLayout &) const = default;
};

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
// then the int32 sum of codes for each group; the whole padded to 64 bytes. `columns` is a multiple of layout.group.
size_t quantized_row_bytes(ActivationLayout layout, uint64_t columns);

}  // namespace bonsai::cpu
