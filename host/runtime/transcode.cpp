#include "host/runtime/transcode.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace bonsai::host {
namespace {

using quant::Format;

constexpr size_t kScaleBytes = 2;     // the f16 scale that both ternary formats begin a block with
constexpr size_t kG64CodeBytes = 16;  // 64 two-bit codes; a block of 128 holds two such runs

std::vector<std::byte> to_float(std::span<const std::byte> blocks, const quant::FormatTraits &from) {
  const size_t n = blocks.size() / from.block_bytes * from.block_weights;
  constexpr size_t kPiece = 4096;
  std::vector<std::byte> result(n * sizeof(float));
  std::array<float, kPiece> piece;
  for (size_t done = 0; done < n; done += kPiece) {
    const size_t count = std::min(kPiece, n - done);
    from.decode(blocks.data() + done / from.block_weights * from.block_bytes, piece.data(), count);
    std::memcpy(result.data() + done * sizeof(float), piece.data(), count * sizeof(float));
  }
  return result;
}

std::vector<std::byte> split_ternary_groups(std::span<const std::byte> blocks) {
  constexpr size_t kBlockBytes = kScaleBytes + 2 * kG64CodeBytes;
  std::vector<std::byte> result;
  result.reserve(blocks.size() / kBlockBytes * 2 * (kScaleBytes + kG64CodeBytes));
  for (; !blocks.empty(); blocks = blocks.subspan(kBlockBytes)) {
    const auto scale = blocks.first(kScaleBytes);
    for (size_t half = 0; half < 2; ++half) {
      const auto codes = blocks.subspan(kScaleBytes + half * kG64CodeBytes, kG64CodeBytes);
      result.insert(result.end(), scale.begin(), scale.end());
      result.insert(result.end(), codes.begin(), codes.end());
    }
  }
  return result;
}

}  // namespace

std::span<const Format> lossless_targets(Format format) {
  static constexpr std::array kFloat = {Format::kF32};
  static constexpr std::array kTernary = {Format::kQ2_0_G64};
  switch (format) {
    case Format::kF16:
    case Format::kBF16:
      return kFloat;
    case Format::kTQ2_0_G128:
      return kTernary;
    default:
      return {};
  }
}

std::vector<std::byte> transcode(std::span<const std::byte> blocks, Format from, Format to) {
  return to == Format::kF32 ? to_float(blocks, quant::traits(from)) : split_ternary_groups(blocks);
}

}  // namespace bonsai::host
