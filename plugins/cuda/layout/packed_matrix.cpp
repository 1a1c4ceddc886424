#include "plugins/cuda/layout/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "plugins/cuda/layout/segment_row.h"

namespace bonsai::cuda {
namespace {

using quant::Format;

struct KernelFormat {
  Format format;
  std::string_view name;
  MatrixLayout layout;
};

// In the order of the enum.
constexpr std::array kKernelFormats = {
    KernelFormat{Format::kF32, "F32", kF32Layout},
    KernelFormat{Format::kF16, "F16", kF16Layout},
    KernelFormat{Format::kBF16, "F16", kF16Layout},
    KernelFormat{Format::kQ8_0, "Q8_0", kQ8_0Layout},
    KernelFormat{Format::kQ4_0, "Q4_0", kQ4_0Layout},
    KernelFormat{Format::kQ1_0_G128, "Q1_0_G128", kQ1_0_G128Layout},
    KernelFormat{Format::kTQ2_0_G128, "TQ2_0_G128", kTQ2_0_G128Layout},
    KernelFormat{Format::kQ2_0_G64, "Q2_0_G64", kQ2_0_G64Layout},
    KernelFormat{Format::kTQ1_0_G128, "TQ2_0_G128", kTQ2_0_G128Layout},
    KernelFormat{Format::kTQ2_0, "TQ2_0_G128", kTQ2_0_G128Layout},
    KernelFormat{Format::kTQ1_0, "TQ2_0_G128", kTQ2_0_G128Layout},
    KernelFormat{Format::kF8_E4M3, "F8_E4M3", kF8_E4M3Layout},
    KernelFormat{Format::kF8_E5M2, "F8_E5M2", kF8_E5M2Layout},
    KernelFormat{Format::kQ4_1, "Q4_1", kQ4_1Layout},
    KernelFormat{Format::kQ5_0, "Q5_0", kQ5_0Layout},
    KernelFormat{Format::kQ5_1, "Q5_1", kQ5_1Layout},
    KernelFormat{Format::kQ2_K, "Q2_K", kQ2_KLayout},
    KernelFormat{Format::kQ3_K, "Q3_K", kQ3_KLayout},
    KernelFormat{Format::kQ4_K, "Q4_K", kQ4_KLayout},
    KernelFormat{Format::kQ5_K, "Q5_K", kQ5_KLayout},
    KernelFormat{Format::kQ6_K, "Q6_K", kQ6_KLayout},
    KernelFormat{Format::kQ8_K, "Q8_K", kQ8_KLayout},
    KernelFormat{Format::kIQ4_NL, "IQ4_NL", kIQ4_NLLayout},
    KernelFormat{Format::kIQ4_XS, "IQ4_XS", kIQ4_XSLayout},
};

constexpr bool in_enum_order() {
  for (size_t i = 0; i < kKernelFormats.size(); ++i) {
    if (static_cast<size_t>(kKernelFormats[i].format) != i) return false;
  }
  return true;
}
static_assert(in_enum_order());

const KernelFormat &kernel_format_of(Format format) {
  assert(static_cast<size_t>(format) < kKernelFormats.size());
  return kKernelFormats[static_cast<size_t>(format)];
}

constexpr uint32_t kLanesOfRow = 4;
constexpr uint32_t kWordsOfLane = 4;
constexpr uint32_t kWarpLanes = 32;

uint32_t load_four(const uint8_t *codes) {
  uint32_t four;
  std::memcpy(&four, codes, sizeof four);
  return four;
}

// Where the words of one row stand in a plane: word `pair` 0 or 1 of lane t of a quad (x or z, for rows 8 to 15 y or
// w).
class RowWords {
 public:
  RowWords(std::byte *plane, uint32_t row) : plane_(plane), lane_(row % 8 * kLanesOfRow), word_(row / 8) {}

  void set(uint32_t quad, uint32_t t, uint32_t pair, uint32_t value) const {
    const size_t at = (size_t{quad} * kWarpLanes + lane_ + t) * kWordsOfLane + 2 * pair + word_;
    std::memcpy(plane_ + at * sizeof value, &value, sizeof value);
  }

 private:
  std::byte *plane_;
  uint32_t lane_, word_;
};

// `bits` bits of each code, from bit `shift` on.
struct CodePart {
  uint32_t bits, shift;
  bool splits_steps;  // MatrixLayout::splits_steps()
};

void write_codes(const uint8_t *codes, CodePart part, const RowWords &words) {
  const uint32_t mask = 0x01010101u * ((1u << part.bits) - 1);
  const uint32_t in_word = 8 / part.bits;  // steps of 32 columns
  const uint32_t lane_columns = part.splits_steps ? 4 : 8, second = part.splits_steps ? 16 : 4;
  for (uint32_t quad = 0; quad < kSegmentColumns / 32 / in_word; ++quad) {
    for (uint32_t t = 0; t < kLanesOfRow; ++t) {
      for (uint32_t pair = 0; pair < 2; ++pair) {
        const uint8_t *from = codes + quad * in_word * 32 + lane_columns * t + second * pair;
        uint32_t word = 0;
        for (uint32_t j = 0; j < in_word; ++j) {
          word |= (load_four(from + 32 * j) >> part.shift & mask) << part.bits * j;
        }
        words.set(quad, t, pair, word);
      }
    }
  }
}

// One-bit weights: a word has 128 columns.
void write_bits(const uint8_t *codes, const RowWords &words) {
  for (uint32_t block = 0; block < kSegmentColumns / 128; ++block) {
    for (uint32_t t = 0; t < kLanesOfRow; ++t) {
      const uint8_t *from = codes + block * 128 + 8 * t;
      uint32_t word = 0;
      for (uint32_t j = 0; j < 4; ++j) {
        word |= load_four(from + 32 * j) << 2 * j | load_four(from + 32 * j + 4) << (2 * j + 1);
      }
      words.set(block / 2, t, block % 2, word);
    }
  }
}

void write_halves(const uint16_t *halves, const RowWords &words) {
  for (uint32_t quad = 0; quad < kSegmentColumns / 16; ++quad) {
    for (uint32_t t = 0; t < kLanesOfRow; ++t) {
      const uint16_t *four = halves + quad / 2 * 32 + 8 * t + quad % 2 * 4;
      words.set(quad, t, 0, four[0] | uint32_t{four[1]} << 16);
      words.set(quad, t, 1, four[2] | uint32_t{four[3]} << 16);
    }
  }
}

void write_planes(const MatrixLayout &layout, const SegmentRow &segment, uint32_t row, std::byte *record) {
  const RowWords low(record, row), high(record + layout.code_bytes(), row);
  if (layout.bits == 16) {
    write_halves(segment.high, low);
    if (layout.high_bits > 0) write_halves(segment.low, high);
  } else if (layout.bits == 1) {
    write_bits(segment.codes, low);
  } else {
    write_codes(segment.codes, {layout.bits, 0, layout.splits_steps()}, low);
    if (layout.high_bits > 0) {
      write_codes(segment.codes, {layout.high_bits, layout.bits, layout.splits_steps()}, high);
    }
  }
}

// Numbers of row g or g + 8 in turn, from the place of g's.
template <class T>
class RowNumbers {
 public:
  RowNumbers(std::byte *of_g, uint32_t row) : next_(of_g + row / 8 * sizeof(T)) {}

  void add(T number) {
    std::memcpy(next_, &number, sizeof number);
    next_ += 2 * sizeof number;
  }

 private:
  std::byte *next_;
};

void write_scales(const MatrixLayout &layout, const SegmentRow &segment, uint32_t row, std::byte *record) {
  std::byte *scales = record + layout.scales_at() + row % 8 * layout.scale_bytes();
  if (layout.scales == Scales::kFloat) {
    RowNumbers<float> numbers(scales, row);
    for (const float d : segment.float_d) numbers.add(d);
  } else if (layout.scales != Scales::kRow) {
    RowNumbers<uint16_t> numbers(scales, row);
    const uint32_t n = kSegmentColumns / (layout.has_integers() ? 256 : layout.group);
    for (uint32_t i = 0; i < n; ++i) {
      numbers.add(segment.d[i]);
      if (layout.has_minima()) numbers.add(segment.m[i]);
    }
  }
  if (!layout.has_integers()) return;
  RowNumbers<uint8_t> integers(record + layout.integers_at() + row % 8 * layout.integer_bytes(), row);
  for (uint32_t i = 0; i < kSegmentColumns / layout.group; ++i) {
    integers.add(segment.integers[i]);
    if (layout.scales == Scales::kBytesAndMinima) integers.add(segment.minima[i]);
  }
}

// Rows that the matrix does not have are zeros.
void pack_tile(const PackArguments &arguments, uint64_t tile, std::byte *packed) {
  const MatrixLayout &layout = matrix_layout(arguments.format);
  const size_t row_bytes = quant::row_bytes(quant::traits(arguments.format), arguments.columns);
  const uint32_t segments = segment_count(arguments.columns);
  std::memset(packed, 0, tile_bytes(arguments.format, arguments.columns));
  const uint64_t first = tile * kTileRows;
  const auto rows = static_cast<uint32_t>(std::min<uint64_t>(kTileRows, arguments.rows - first));
  for (uint32_t row = 0; row < rows; ++row) {
    const SourceRow source = {arguments.format, arguments.source + (first + row) * row_bytes, arguments.columns};
    const float scale = row_scale(source);
    for (uint32_t segment = 0; segment < segments; ++segment) {
      std::byte *record = packed + size_t{segment} * layout.record_bytes();
      const SegmentRow numbers = read_segment(source, segment, scale);
      write_planes(layout, numbers, row, record);
      write_scales(layout, numbers, row, record);
    }
    if (layout.scales == Scales::kRow) {
      std::memcpy(packed + size_t{segments} * layout.record_bytes() + row * sizeof scale, &scale, sizeof scale);
    }
  }
}

}  // namespace

std::string_view kernel_format(Format format) { return kernel_format_of(format).name; }

const MatrixLayout &matrix_layout(Format format) { return kernel_format_of(format).layout; }

uint64_t tile_count(uint64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

uint32_t segment_count(uint64_t columns) {
  return static_cast<uint32_t>((columns + kSegmentColumns - 1) / kSegmentColumns);
}

size_t tile_bytes(Format format, uint64_t columns) {
  const MatrixLayout &layout = matrix_layout(format);
  return size_t{segment_count(columns)} * layout.record_bytes() + layout.row_scale_bytes();
}

size_t packed_bytes(Format format, uint64_t rows, uint64_t columns) {
  return tile_count(rows) * tile_bytes(format, columns);
}

void pack_tiles(const PackArguments &arguments) {
  const size_t bytes = tile_bytes(arguments.format, arguments.columns);
  for (uint64_t tile = arguments.first_tile; tile < arguments.last_tile; ++tile) {
    pack_tile(arguments, tile, arguments.packed + (tile - arguments.first_tile) * bytes);
  }
}

}  // namespace bonsai::cuda
