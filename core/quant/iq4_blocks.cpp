#include "core/quant/iq4_blocks.h"

#include "core/quant/k_fit.h"
#include "core/quant/packing.h"

namespace bonsai::quant {
namespace {

constexpr uint32_t kSub = 32, kSubBlocks = kSuperBlock / kSub;
constexpr uint32_t kHighScalesAt = 2, kLowScalesAt = 4, kCodesAt = 8;
constexpr int kScales = 32;  // from -this to this - 1

using LowFour = Interleaved<4, 16>;

}  // namespace

void IQ4_NL::decode(const std::byte *block, float *weights) {
  const float d = load_half(block);
  uint8_t codes[kWeights] = {};
  LowFour::unpack(block + sizeof(uint16_t), codes, kWeights);
  for (uint32_t i = 0; i < kWeights; ++i) weights[i] = d * static_cast<float>(kIQ4Values[codes[i]]);
}

void IQ4_NL::encode(const float *weights, std::byte *block) {
  uint8_t codes[kWeights];
  store_half(block, fit_iq4(weights, codes));
  LowFour::pack(codes, block + sizeof(uint16_t), kWeights);
}

// The order of the products is ggml's: another would round differently.
void IQ4_XS::decode(const std::byte *block, float *weights) {
  const IQ4Block numbers = unpack(block);
  for (uint32_t i = 0; i < kWeights; ++i) {
    const float scale = numbers.d * static_cast<float>(numbers.scales[i / kSub]);
    weights[i] = scale * static_cast<float>(kIQ4Values[numbers.codes[i]]);
  }
}

void IQ4_XS::encode(const float *weights, std::byte *block) { pack(fit<IQ4_XS>(weights), block); }

IQ4Block IQ4_XS::unpack(const std::byte *bytes) {
  IQ4Block block;
  block.d = load_half(bytes);
  const uint32_t high = load<uint16_t>(bytes + kHighScalesAt);
  for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
    const auto low = std::to_integer<uint32_t>(bytes[kLowScalesAt + sub / 2]) >> sub % 2 * 4 & 15;
    block.scales[sub] = static_cast<int8_t>(static_cast<int>(low | (high >> 2 * sub & 3) << 4) - kScales);
  }
  LowFour::unpack(bytes + kCodesAt, block.codes, kSuperBlock);
  return block;
}

void IQ4_XS::pack(const IQ4Block &block, std::byte *bytes) {
  store_half(bytes, block.d);
  uint32_t high = 0, low = 0;
  for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
    const auto scale = static_cast<uint32_t>(block.scales[sub] + kScales);
    high |= (scale >> 4) << 2 * sub;
    low |= (scale & 15) << 4 * sub;
  }
  store(bytes + kHighScalesAt, static_cast<uint16_t>(high));
  store(bytes + kLowScalesAt, low);
  LowFour::pack(block.codes, bytes + kCodesAt, kSuperBlock);
}

}  // namespace bonsai::quant
