#include "plugins/cuda/layout/activations.h"

#include <algorithm>
#include <cassert>

#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {
namespace {

constexpr uint64_t kAlignment = 256;

uint64_t stride_of(uint64_t n) { return (n + 7) / 8 * 8; }

// Hands out places one after the other.
class Places {
 public:
  explicit Places(std::byte *base) : base_(base) {}

  template <class T>
  T *take(uint64_t n) {
    std::byte *place = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += (n * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T *>(place);
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte *base_;
  size_t bytes_ = 0;
};

PackedActivations place(const ActivationForms &forms, uint64_t n, uint64_t columns, Places &places) {
  const uint64_t padded = padded_columns(columns), stride = stride_of(n);
  PackedActivations packed = {};
  packed.stride = static_cast<uint32_t>(stride);
  packed.together_log2 = together_log2(n);
  const uint64_t tokens = n == 1 ? 1 : stride;
  if (forms.codes_by_128) {
    packed.codes_by_128 = places.take<int8_t>(tokens * padded);
    packed.groups_128 = places.take<GroupRecord>(padded / 128 * stride);
  }
  if (forms.bit_planes) packed.bit_planes = places.take<uint32_t>(n * padded / 4);
  if (forms.codes_by_32) {
    packed.codes_by_32 = places.take<int8_t>(tokens * padded);
    packed.groups_32 = places.take<GroupRecord>(padded / 32 * stride);
  }
  if (forms.halves) {
    packed.high = places.take<uint16_t>(tokens * padded);
    packed.low = places.take<uint16_t>(tokens * padded);
    packed.row_scales = places.take<float>(n);
  }
  return packed;
}

}  // namespace

ActivationForms ActivationForms::of(quant::Format format, bool bit_planes) {
  ActivationForms forms;
  switch (matrix_layout(format).packing) {
    case Packing::kCodesBy128:
      forms.codes_by_128 = true;
      forms.bit_planes = bit_planes;
      break;
    case Packing::kCodesBy32:
      forms.codes_by_32 = true;
      break;
    case Packing::kHalves:
      forms.halves = true;
      break;
  }
  return forms;
}

ActivationForms &ActivationForms::operator|=(const ActivationForms &other) {
  codes_by_128 |= other.codes_by_128;
  bit_planes |= other.bit_planes;
  codes_by_32 |= other.codes_by_32;
  halves |= other.halves;
  return *this;
}

uint64_t padded_columns(uint64_t columns) { return uint64_t{segment_count(columns)} * kSegmentColumns; }

size_t packed_activation_bytes(const ActivationForms &forms, uint64_t n, uint64_t columns) {
  Places places(nullptr);
  place(forms, n, columns, places);
  return places.bytes();
}

PackedActivations place_activations(const ActivationForms &forms, std::byte *base, uint64_t n, uint64_t columns) {
  assert(base != nullptr && (forms.codes_by_128 || !forms.bit_planes));
  Places places(base);
  return place(forms, n, columns, places);
}

ActivationPlan plan_activations(uint64_t n, uint64_t columns, uint32_t multiprocessors) {
  constexpr uint64_t kLeastColumns = 1024;  // four for each of a block's threads
  const uint64_t padded = padded_columns(columns);
  const uint64_t most_chunks = (padded + kLeastColumns - 1) / kLeastColumns;
  const uint64_t wanted = std::clamp<uint64_t>((multiprocessors + n - 1) / n, 1, most_chunks);
  const uint64_t chunk = (padded / kSegmentColumns + wanted - 1) / wanted * kSegmentColumns;
  return {static_cast<uint32_t>((padded + chunk - 1) / chunk), static_cast<uint32_t>(chunk)};
}

}  // namespace bonsai::cuda
