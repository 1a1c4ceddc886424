#include "tools/convert/fp8.h"

#include <algorithm>

#include "core/quant/fp8_blocks.h"

namespace bonsai::convert {
namespace {

void decode(const std::byte *codes, float *weights, size_t n) {
  for (size_t i = 0; i < n; ++i) weights[i] = quant::fp8_to_float<quant::E4M3>(std::to_integer<uint8_t>(codes[i]));
}

uint64_t blocks_in(uint64_t extent, uint64_t block) { return extent / block + (extent % block != 0); }

}  // namespace

const quant::FormatTraits &fp8_codes() {
  static constexpr quant::FormatTraits kCodes = {.format = quant::Format::kF8_E4M3,
                                                 .name = "F8_E4M3",
                                                 .gguf_type = 0,
                                                 .gguf_name = "",
                                                 .block_weights = 1,
                                                 .block_bytes = 1,
                                                 .decode = decode,
                                                 .encode = nullptr,
                                                 .count_nonfinite = nullptr,
                                                 .count_code3 = nullptr};
  return kCodes;
}

Result<tools::ScaleGrid> read_scales(const SourceTensor &codes, const SourceTensor &scales, const Fp8Blocks &blocks) {
  if (!scales.format) return fail("{}: dtype: expected F32, F16 or BF16, found {}", scales.name, scales.dtype);
  const uint64_t rows = codes.shape[0], columns = codes.shape[1];
  uint64_t count = 1;
  for (const uint64_t extent : scales.shape) count *= extent;  // bytes of a mapped file: does not overflow
  tools::ScaleGrid grid{blocks.rows.value_or(count == 1 ? rows : 1), blocks.columns.value_or(columns), 0, {}};
  grid.columns = blocks_in(columns, grid.block_columns);
  std::vector<uint64_t> expected = {blocks_in(rows, grid.block_rows), grid.columns}, found = scales.shape;
  found.resize(std::max<size_t>(found.size(), 2), 1);  // a number is [] or [1], and a column may be a list
  if (found != expected) {
    return fail("{}: expected {} scales, found {}", scales.name, fmt::join(expected, " x "), fmt::join(found, " x "));
  }
  grid.scales.resize(count);
  quant::traits(*scales.format).decode(scales.bytes.data(), grid.scales.data(), count);
  return grid;
}

}  // namespace bonsai::convert
