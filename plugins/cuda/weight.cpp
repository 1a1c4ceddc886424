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

// Behind the last of the parts that make one matrix with `first`: of its format, each beginning with a tile.
uint32_t end_of_matrix(const bonsai_weight_desc &desc, uint32_t first) {
  uint64_t rows = desc.parts[first]->rows;
  uint32_t end = first + 1;
  while (end < desc.n_parts && desc.parts[end]->dtype == desc.parts[first]->dtype && rows % kTileRows == 0 &&
         rows + desc.parts[end]->rows <= kMaxRows) {
    rows += desc.parts[end++]->rows;
  }
  return end;
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
  for (uint32_t first = 0, end; first < desc.n_parts; first = end) {
    end = end_of_matrix(desc, first);
    add_matrix(desc, first, end, name);
  }
  device_.weight_bytes += bytes_;
}

Weight::~Weight() { device_.weight_bytes -= bytes_; }

// Parts [first, end) as one matrix; each but the last ends with a tile.
void Weight::add_matrix(const bonsai_weight_desc &desc, uint32_t first, uint32_t end, const std::string &name) {
  const auto format = static_cast<quant::Format>(desc.parts[first]->dtype);
  uint64_t rows = 0;
  for (uint32_t i = first; i < end; ++i) rows += desc.parts[i]->rows;
  const uint64_t bytes = packed_bytes(format, rows, columns_);
  parts_.push_back({.first_row = rows_,
                    .matrix = {.format = format,
                               .rows = rows,
                               .columns = columns_,
                               .storage = DeviceBuffer(device_.context(), bytes, name.c_str())}});
  uint64_t tile = 0;
  for (uint32_t i = first; i < end; ++i) {
    const bonsai_weight_part &part = *desc.parts[i];
    device_.uploader().upload({.format = format,
                               .rows = part.rows,
                               .columns = columns_,
                               .source = static_cast<const std::byte *>(part.data),
                               .first_tile = 0,
                               .last_tile = 0,
                               .packed = nullptr},
                              parts_.back().matrix.storage.as<std::byte>(tile * tile_bytes(format, columns_)));
    tile += tile_count(part.rows);
  }
  rows_ += rows;
  bytes_ += bytes;
}

void Weight::append_rows(uint64_t first, uint64_t count, uint64_t to, std::vector<MatrixRows> &rows) const {
  for (const Part &part : parts_) {
    const uint64_t begin = std::max(first, part.first_row);
    const uint64_t end = std::min(first + count, part.first_row + part.matrix.rows);
    if (begin >= end) continue;
    const MatrixRows found = {
        .matrix = &part.matrix, .first_row = begin - part.first_row, .rows = end - begin, .output = to + begin - first};
    if (!rows.empty() && rows.back().goes_on_with(found)) {
      rows.back().rows += found.rows;
    } else {
      rows.push_back(found);
    }
  }
}

}  // namespace bonsai::cuda
