#include "plugins/cpu/weight.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/quant/format.h"
#include "plugins/common/failure.h"
#include "plugins/common/weight_description.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

// Tiles that are worth handing to another thread when a matrix is packed.
constexpr size_t kPackGrain = 16;

// Bytes that are worth handing to another thread when a matrix is copied.
constexpr size_t kCopyGrain = size_t{1} << 20;

// Rows that are worth handing to another thread when codes are counted.
constexpr size_t kCountGrain = 64;

bool holds_code3(Threads &threads, const PackedMatrix &file) {
  const quant::FormatTraits &traits = quant::traits(file.format);
  if (!traits.count_code3) return false;
  const size_t row_bytes = quant::row_bytes(traits, file.columns);
  std::atomic<bool> found = false;
  threads.each_range(file.rows, kCountGrain, [&](uint64_t begin, uint64_t end, int) {
    for (uint64_t row = begin; row < end && !found; ++row) {
      if (traits.count_code3(file.data + row * row_bytes, file.columns) > 0) found = true;
    }
  });
  return found;
}

Packing choose_packing(Device &device, const PackedMatrix &file) {
  const Packing packing = device.kernels().packing_of(file.format);
  const bool is_ternary = packing == Packing::kTrits || packing == Packing::kTernary;
  return is_ternary && holds_code3(device.threads(), file) ? Packing::kUsual : packing;
}

constexpr bonsai_weight_use kUses = BONSAI_USE_MATRIX | BONSAI_USE_EMBEDDING;

}  // namespace

// Rows of any format can be decoded, and so looked up.
bonsai_weight_use supported_uses(bonsai_dtype dtype) {
  if (!find_traits(dtype)) return 0;
  return has_kernels(static_cast<quant::Format>(dtype)) ? kUses : bonsai_weight_use{BONSAI_USE_EMBEDDING};
}

Weight::Weight(Device &device, const bonsai_weight_desc &desc)
    : device_(device), uses_(desc.uses), columns_(desc.columns) {
  check_description(desc, supported_uses);
  parts_.reserve(desc.n_parts);
  for (uint32_t i = 0; i < desc.n_parts; ++i) {
    add_part(device, *desc.parts[i], (desc.flags & BONSAI_WEIGHT_BORROWED) != 0);
  }
  if (uses_ & BONSAI_USE_MATRIX) device.reserve_gemv(columns_);
  device_.weight_bytes += bytes_;
  device_.borrowed_bytes += borrowed_bytes_;
}

Weight::~Weight() {
  device_.weight_bytes -= bytes_;
  device_.borrowed_bytes -= borrowed_bytes_;
}

void Weight::add_part(Device &device, const bonsai_weight_part &part, bool may_borrow) {
  const auto *source = static_cast<const std::byte *>(part.data);
  Part &made = parts_.emplace_back();
  made.first_row = rows_;
  made.matrix = {
      .format = static_cast<quant::Format>(part.dtype), .rows = part.rows, .columns = columns_, .data = source};
  const bool is_multiplied = (uses_ & BONSAI_USE_MATRIX) != 0;
  made.packed = is_multiplied && is_repacked(made.matrix.format);
  rows_ += part.rows;
  if (!made.packed && may_borrow && !(is_multiplied && device.copies_floats(part.data_bytes))) {
    borrowed_bytes_ += part.data_bytes;
    return;
  }
  const Packing packing = made.packed ? choose_packing(device, made.matrix) : Packing::kUsual;
  const uint64_t bytes =
      made.packed ? packed_bytes(made.matrix.format, part.rows, columns_, packing) : uint64_t{part.data_bytes};
  made.storage = device.slabs().allocate(bytes);
  if (made.packed) {
    device.threads().each_range(tile_count(part.rows), kPackGrain, [&](uint64_t begin, uint64_t end, int) {
      pack_tiles({.format = made.matrix.format,
                  .rows = part.rows,
                  .columns = columns_,
                  .source = source,
                  .packed = made.storage.get(),
                  .first_tile = begin,
                  .last_tile = end,
                  .packing = packing});
    });
    made.matrix.packing = packing;
  } else {
    device.threads().each_range(part.data_bytes, kCopyGrain, [&](uint64_t begin, uint64_t end, int) {
      std::memcpy(made.storage.get() + begin, source + begin, end - begin);
    });
  }
  made.matrix.data = made.storage.get();
  bytes_ += round_up(bytes, kCacheLine);
}

void Weight::append_rows(uint64_t first, uint64_t count, uint64_t to, std::vector<MatrixRows> &rows) const {
  for (const Part &part : parts_) {
    const uint64_t begin = std::max(first, part.first_row);
    const uint64_t end = std::min(first + count, part.first_row + part.matrix.rows);
    if (begin >= end) continue;
    rows.push_back({.matrix = &part.matrix,
                    .first_row = begin - part.first_row,
                    .last_row = end - part.first_row,
                    .output = to + begin - first});
  }
}

const Weight::Part &Weight::part_of(uint64_t row) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), row,
                                      [](uint64_t row, const Part &part) { return row < part.first_row; });
  return *std::prev(after);
}

void Weight::lookup(uint64_t row, std::span<float> values) const {
  const Part &part = part_of(row);
  if (part.packed) return decode_row(part.matrix, row - part.first_row, values);
  const quant::FormatTraits &format = quant::traits(part.matrix.format);
  format.decode(part.matrix.data + (row - part.first_row) * quant::row_bytes(format, columns_), values.data(),
                columns_);
}

}  // namespace bonsai::cpu
