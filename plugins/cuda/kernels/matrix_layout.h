// How a weight matrix lies in device memory, so that each lane of a warp loads 16 bytes at a time and finds in them
// what the tensor cores want of it. Host (packing) and device (kernels) both include this file.
//
// A matrix is cut into tiles of 16 rows, and a tile's columns into segments of 512; missing rows and columns have scale
// 0. A tile is its segments' records one after the other and, for formats with one scale a row, 16 floats. A record is
//
//   codes    (1024 * bits bytes)       quads, below
//   high     (1024 * high_bits bytes)  likewise the codes' upper bits, or the second half-precision numbers of F32
//   scales   (8, words)                of rows g and g + 8, for g = 0..7: see Scales
//
// A quad is four 32-bit words for each of a warp's lanes, which hold 256 / bits columns of the 16 rows. Lane 4 g + t
// has words x and z of row g, and y and w of row g + 8: x and y of the columns 32 j + 8 t + i, z and w of the columns
// 32 j + 8 t + 4 + i, where i = 0..3 is the byte and j the place in it, lowest bits first. So word >> bits * j, masked,
// is a fragment of mma_s8_k32, for activations that are read 8 in a row (any order of k will do, if it is the same on
// both sides). Groups of 16 columns take 32 j + 4 t + i and 32 j + 16 + 4 t + i instead: then one half is a fragment of
// mma_s8_k16. Half-precision numbers take two quads for 32 columns, the first with columns 8 t + 0..3, the second with
// 8 t + 4..7; of each four, x and y hold the first two and z and w the last two.
//
// One-bit weights: word x has 128 columns of row g, y of row g + 8, z and w the next 128 of each. Bit 8 i + 2 j + s of
// lane t's word is column 32 j + 8 t + 4 s + i: also a fragment of mma_b1_k128.
#pragma once

#include "plain_types.h"

namespace bonsai::cuda {

inline constexpr uint32_t kTileRows = 16;
inline constexpr uint32_t kSegmentColumns = 512;
inline constexpr uint32_t kStepColumns = 32;  // that every format comes in multiples of

// What a code is.
enum class Codes : uint32_t {
  kUnsigned,   // an integer from 0, less an offset
  kSigned,     // 8 bits
  kUneven,     // 4 bits that stand for one of 16 signed numbers of 8: formats.cuh
  kHalf,       // binary16
  kTwoHalves,  // the sum of two binary16
  kE4M3,
  kE5M2,
};

// What turns codes into weights; halves are binary16. Per g, in this order:
enum class Scales : uint32_t {
  kHalf,            // each group: halves d of g and g + 8
  kHalfAndMinimum,  // each group: halves d of g and g + 8, halves m of g and g + 8; w = q d + m
  kFloat,           // each 256 columns: floats d of g and g + 8
  kNibbles,         // each 256: halves d of g and g + 8, dmin of both; then each group: bytes s | m << 4 of both;
                    // w = d s q - dmin m
  kBytesAndMinima,  // each 256: as above; then each group: bytes s of g and g + 8, m of both
  kSignedBytes,     // each 256: halves d of both; then each group: signed bytes s of both; w = d s (q - offset)
  kRow,             // none: a float each row, behind the tile's records
};

// In which form a format takes its activations: see activation_arguments.h.
enum class Packing : uint32_t { kCodesBy128, kCodesBy32, kHalves };

struct MatrixLayout {
  Codes codes;
  uint32_t bits;       // of the low plane
  uint32_t high_bits;  // of the high plane; 0: none
  uint32_t group;      // columns that share a scale; Scales::kRow: 512
  Scales scales;
  int offset;  // that is taken from a code; one-bit codes are 2 c - 1
  Packing packing;

  constexpr uint32_t code_bytes() const { return kTileRows * kSegmentColumns / 8 * bits; }  // of a record
  constexpr uint32_t high_bytes() const { return kTileRows * kSegmentColumns / 8 * high_bits; }
  constexpr bool has_minima() const {
    return scales == Scales::kHalfAndMinimum || scales == Scales::kNibbles || scales == Scales::kBytesAndMinima;
  }
  // Scales with a small integer beside them.
  constexpr bool has_integers() const {
    return scales == Scales::kNibbles || scales == Scales::kBytesAndMinima || scales == Scales::kSignedBytes;
  }
  // Bytes of floating-point scales for each g.
  constexpr uint32_t scale_bytes() const {
    switch (scales) {
      case Scales::kHalf:
        return kSegmentColumns / group * 4;
      case Scales::kHalfAndMinimum:
        return kSegmentColumns / group * 8;
      case Scales::kSignedBytes:
        return 8;
      case Scales::kRow:
        return 0;
      default:
        return 16;  // of two blocks of 256
    }
  }
  // Bytes of integers for each g.
  constexpr uint32_t integer_bytes() const {
    if (!has_integers()) return 0;
    return kSegmentColumns / group * (scales == Scales::kBytesAndMinima ? 4 : 2);
  }
  constexpr uint32_t scales_at() const { return code_bytes() + high_bytes(); }
  constexpr uint32_t integers_at() const { return scales_at() + 8 * scale_bytes(); }
  constexpr uint32_t record_bytes() const { return integers_at() + 8 * integer_bytes(); }
  constexpr uint32_t row_scale_bytes() const { return scales == Scales::kRow ? kTileRows * 4 : 0; }  // of a tile
  // Groups of 16 split a step of 32 columns in halves.
  constexpr bool splits_steps() const { return group == 16; }
  constexpr bool is_float() const { return packing == Packing::kHalves; }
};

// Columns whose products are summed up before they are scaled, by the weights' and the activations' scales.
constexpr uint32_t group_columns(const MatrixLayout &layout) {
  if (layout.packing != Packing::kCodesBy128) return 32;
  return layout.group < 128 ? layout.group : 128;
}

// By the name that a unit of device code is compiled for. TQ1_0_G128, TQ2_0 and TQ1_0 become TQ2_0_G128, BF16 becomes
// F16.
inline constexpr MatrixLayout kQ1_0_G128Layout = {Codes::kUnsigned, 1, 0, 128, Scales::kHalf, 1, Packing::kCodesBy128};
inline constexpr MatrixLayout kTQ2_0_G128Layout = {Codes::kUnsigned, 2, 0, 128, Scales::kHalf, 1, Packing::kCodesBy128};
inline constexpr MatrixLayout kQ2_0_G64Layout = {Codes::kUnsigned, 2, 0, 64, Scales::kHalf, 1, Packing::kCodesBy128};
inline constexpr MatrixLayout kQ4_0Layout = {Codes::kUnsigned, 4, 0, 32, Scales::kHalf, 8, Packing::kCodesBy32};
inline constexpr MatrixLayout kQ4_1Layout = {Codes::kUnsigned,   4, 0, 32, Scales::kHalfAndMinimum, 0,
                                             Packing::kCodesBy32};
inline constexpr MatrixLayout kQ5_0Layout = {Codes::kUnsigned, 4, 1, 32, Scales::kHalf, 16, Packing::kCodesBy32};
inline constexpr MatrixLayout kQ5_1Layout = {Codes::kUnsigned,   4, 1, 32, Scales::kHalfAndMinimum, 0,
                                             Packing::kCodesBy32};
inline constexpr MatrixLayout kQ8_0Layout = {Codes::kSigned, 8, 0, 32, Scales::kHalf, 0, Packing::kCodesBy32};
inline constexpr MatrixLayout kQ2_KLayout = {Codes::kUnsigned, 2, 0, 16, Scales::kNibbles, 0, Packing::kCodesBy32};
inline constexpr MatrixLayout kQ3_KLayout = {Codes::kUnsigned, 2, 1, 16, Scales::kSignedBytes, 4, Packing::kCodesBy32};
inline constexpr MatrixLayout kQ4_KLayout = {Codes::kUnsigned,   4, 0, 32, Scales::kBytesAndMinima, 0,
                                             Packing::kCodesBy32};
inline constexpr MatrixLayout kQ5_KLayout = {Codes::kUnsigned,   4, 1, 32, Scales::kBytesAndMinima, 0,
                                             Packing::kCodesBy32};
inline constexpr MatrixLayout kQ6_KLayout = {Codes::kUnsigned, 4, 2, 16, Scales::kSignedBytes, 32, Packing::kCodesBy32};
inline constexpr MatrixLayout kQ8_KLayout = {Codes::kSigned, 8, 0, 256, Scales::kFloat, 0, Packing::kCodesBy32};
inline constexpr MatrixLayout kIQ4_NLLayout = {Codes::kUneven, 4, 0, 32, Scales::kHalf, 0, Packing::kCodesBy32};
inline constexpr MatrixLayout kIQ4_XSLayout = {Codes::kUneven, 4, 0, 32, Scales::kSignedBytes, 0, Packing::kCodesBy32};
inline constexpr MatrixLayout kF8_E4M3Layout = {Codes::kE4M3, 8, 0, 32, Scales::kHalf, 0, Packing::kHalves};
inline constexpr MatrixLayout kF8_E5M2Layout = {Codes::kE5M2, 8, 0, 32, Scales::kHalf, 0, Packing::kHalves};
inline constexpr MatrixLayout kF16Layout = {Codes::kHalf, 16, 0, 512, Scales::kRow, 0, Packing::kHalves};
inline constexpr MatrixLayout kF32Layout = {Codes::kTwoHalves, 16, 16, 512, Scales::kRow, 0, Packing::kHalves};

}  // namespace bonsai::cuda
