#include "core/quant/transcode.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "core/quant/codec.h"
#include "core/quant/ternary_blocks.h"

namespace bonsai::quant {
namespace {

// How one ternary format packs, for conversions by way of plain codes.
struct TernaryPacking {
  Format format;
  uint32_t weights, bytes, scale_at;
  uint32_t most_code;
  void (*unpack)(const std::byte *block, uint8_t *codes);
  void (*pack)(const uint8_t *codes, std::byte *block);
};

template <class Codec>
constexpr TernaryPacking packing_of(Format format) {
  return {format, Codec::kWeights, Codec::kBytes, Codec::kScaleAt, Codec::kMostCode, Codec::unpack, Codec::pack};
}

// In the order in which they are tried as targets.
constexpr std::array kTernary = {
    packing_of<TQ2_0_G128>(Format::kTQ2_0_G128), packing_of<Q2_0_G64>(Format::kQ2_0_G64),
    packing_of<TQ2_0>(Format::kTQ2_0),           packing_of<TQ1_0_G128>(Format::kTQ1_0_G128),
    packing_of<TQ1_0>(Format::kTQ1_0),
};

constexpr uint32_t kLeastGroup = 64;  // weights with one scale
constexpr uint32_t kMostGroup = 256;

const TernaryPacking *find_ternary(Format format) {
  const auto *found = std::find_if(kTernary.begin(), kTernary.end(),
                                   [&](const TernaryPacking &packing) { return packing.format == format; });
  return found != kTernary.end() ? found : nullptr;
}

// The targets of the ternary format kTernary[kFrom]: the others.
template <size_t kFrom>
constexpr auto others() {
  std::array<Format, kTernary.size() - 1> targets{};
  for (size_t i = 0; i < targets.size(); ++i) targets[i] = kTernary[i + (i >= kFrom)].format;
  return targets;
}

template <size_t... kFrom>
constexpr auto ternary_targets(std::index_sequence<kFrom...>) {
  return std::array{others<kFrom>()...};
}

constexpr std::array kFloatTargets = {Format::kF32};
constexpr auto kTernaryTargets = ternary_targets(std::make_index_sequence<kTernary.size()>());

// Some weights, as many as the larger of two blocks has.
struct Group {
  uint8_t codes[kMostGroup] = {};
  uint16_t scales[kMostGroup / kLeastGroup] = {};  // of each kLeastGroup weights, as bits
};

void unpack_group(const TernaryPacking &from, const std::byte *blocks, uint32_t n, Group &group) {
  for (uint32_t at = 0; at < n; at += from.weights, blocks += from.bytes) {
    from.unpack(blocks, group.codes + at);
    std::fill_n(group.scales + at / kLeastGroup, from.weights / kLeastGroup, load<uint16_t>(blocks + from.scale_at));
  }
}

bool pack_group(const TernaryPacking &to, const Group &group, uint32_t n, std::byte *blocks) {
  if (to.most_code < 3 && std::find(group.codes, group.codes + n, 3) != group.codes + n) return false;
  for (uint32_t at = 0; at < n; at += to.weights, blocks += to.bytes) {
    const uint16_t *scales = group.scales + at / kLeastGroup;
    const uint16_t *end = scales + to.weights / kLeastGroup;
    if (std::find_if(scales, end, [&](uint16_t scale) { return scale != *scales; }) != end) return false;
    to.pack(group.codes + at, blocks);
    store(blocks + to.scale_at, *scales);
  }
  return true;
}

bool transcode_ternary(const TernaryPacking &from, const TernaryPacking &to, const std::byte *blocks, std::byte *result,
                       size_t n) {
  // Block sizes are powers of two: the larger one is whole blocks of the other.
  const uint32_t step = std::max(from.weights, to.weights);
  if (n % step != 0) return false;
  for (size_t at = 0; at < n; at += step) {
    Group group;
    unpack_group(from, blocks + at / from.weights * from.bytes, step, group);
    if (!pack_group(to, group, step, result + at / to.weights * to.bytes)) return false;
  }
  return true;
}

// F32 needs no alignment as a format, so the floats go by way of an array.
void transcode_to_float(const FormatTraits &from, const std::byte *blocks, std::byte *result, size_t n) {
  float weights[1024];
  for (size_t at = 0; at < n; at += std::size(weights)) {
    const size_t count = std::min(std::size(weights), n - at);
    from.decode(blocks + at / from.block_weights * from.block_bytes, weights, count);
    std::memcpy(result + at * sizeof(float), weights, count * sizeof(float));
  }
}

}  // namespace

std::span<const Format> lossless_targets(Format format) {
  if (format == Format::kF16 || format == Format::kBF16) return kFloatTargets;
  const TernaryPacking *ternary = find_ternary(format);
  if (ternary == nullptr) return {};
  return kTernaryTargets[static_cast<size_t>(ternary - kTernary.data())];
}

bool can_transcode(Format from, Format to) {
  const auto targets = lossless_targets(from);
  return from == to || std::find(targets.begin(), targets.end(), to) != targets.end();
}

bool transcode(Format from, Format to, const std::byte *blocks, std::byte *result, size_t n) {
  assert(can_transcode(from, to) && n % traits(from).block_weights == 0);
  if (from == to) {
    std::memcpy(result, blocks, row_bytes(traits(from), n));
    return true;
  }
  if (to == Format::kF32) {
    transcode_to_float(traits(from), blocks, result, n);
    return true;
  }
  return transcode_ternary(*find_ternary(from), *find_ternary(to), blocks, result, n);
}

}  // namespace bonsai::quant
