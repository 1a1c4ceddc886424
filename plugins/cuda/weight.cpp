#include "plugins/cuda/weight.h"

#include <algorithm>
#include <string>

#include "plugins/common/weight_description.h"
#include "plugins/cuda/device.h"
#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {
namespace {

// Kernels count rows and columns in 32 bits.
constexpr uint64_t kMaxRows = uint64_t{1} << 31;
constexpr uint64_t kMaxColumns = uint64_t{1} << 24;

void check_size(const bonsai_weight_desc &desc, const std::string &name) {
  if (desc.columns > kMaxColumns) refuse("{}: {} columns, expected at most {}", name, desc.columns, kMaxColumns);
  for (uint32_t i = 0; i < desc.n_parts; ++i) {
    if (desc.parts[i]->rows > kMaxRows) {
      refuse("{}: a part has {} rows, expected at most {}", name, desc.parts[i]->rows, kMaxRows);
    }
  }
}

}  // namespace

bonsai_weight_use supported_uses(bonsai_dtype dtype) {
  return find_traits(dtype) ? BONSAI_USE_MATRIX | BONSAI_USE_EMBEDDING : 0;
}

Weight::Weight(Device &device, const bonsai_weight_desc &desc)
    : device_(device), uses_(desc.uses), columns_(desc.columns) {
  const std::string name = check_description(desc, supported_uses);
  check_size(desc, name);
  const CurrentContext current(device.context());
  parts_.reserve(desc.n_parts);
  for (uint32_t i = 0; i < desc.n_parts; ++i) {
    const bonsai_weight_part &part = *desc.parts[i];
    const auto format = static_cast<quant::Format>(part.dtype);
    const uint64_t bytes = packed_bytes(format, part.rows, columns_);
    parts_.push_back({.first_row = rows_,
                      .matrix = {.format = format,
                                 .rows = part.rows,
                                 .columns = columns_,
                                 .storage = DeviceBuffer(device.context(), bytes, name.c_str())}});
    device.uploader().upload({.format = format,
                              .rows = part.rows,
                              .columns = columns_,
                              .source = static_cast<const std::byte *>(part.data),
                              .first_tile = 0,
                              .last_tile = 0,
                              .packed = nullptr},
                             parts_.back().matrix.storage.as<std::byte>());
    rows_ += part.rows;
    bytes_ += bytes;
  }
  device_.weight_bytes += bytes_;
}

Weight::~Weight() { device_.weight_bytes -= bytes_; }

void Weight::append_rows(uint64_t first, uint64_t count, uint64_t to, std::vector<MatrixRows> &rows) const {
  for (const Part &part : parts_) {
    const uint64_t begin = std::max(first, part.first_row);
    const uint64_t end = std::min(first + count, part.first_row + part.matrix.rows);
    if (begin >= end) continue;
    rows.push_back({.matrix = &part.matrix,
                    .first_row = begin - part.first_row,
                    .rows = end - begin,
                    .output = to + begin - first});
  }
}

}  // namespace bonsai::cuda
