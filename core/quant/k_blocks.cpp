#include "core/quant/k_blocks.h"

#include <algorithm>
#include <cmath>

#include "core/quant/k_fit.h"
#include "core/quant/k_packing.h"
#include "core/quant/rounding.h"

namespace bonsai::quant {
namespace {

// The order of the products is ggml's: another would round differently.
void decode_numbers(const AffineBlock &block, uint32_t sub_weights, float *weights) {
  for (uint32_t i = 0; i < kSuperBlock; ++i) {
    const uint32_t sub = i / sub_weights;
    const float scale = block.d * static_cast<float>(block.scales[sub]);
    const float min = block.dmin * static_cast<float>(block.mins[sub]);
    weights[i] = scale * static_cast<float>(block.codes[i]) - min;
  }
}

void decode_numbers(const SymmetricBlock &block, uint32_t sub_weights, float *weights) {
  for (uint32_t i = 0; i < kSuperBlock; ++i) {
    const float scale = block.d * static_cast<float>(block.scales[i / sub_weights]);
    weights[i] = scale * static_cast<float>(block.codes[i]);
  }
}

}  // namespace

template <uint32_t kBits, uint32_t kBytes, uint32_t kDAt, uint32_t kDminAt>
void KBlock<kBits, kBytes, kDAt, kDminAt>::decode(const std::byte *block, float *weights) {
  decode_numbers(KPacking<kBits>::unpack(block), KPacking<kBits>::kSubWeights, weights);
}

template <uint32_t kBits, uint32_t kBytes, uint32_t kDAt, uint32_t kDminAt>
void KBlock<kBits, kBytes, kDAt, kDminAt>::encode(const float *weights, std::byte *block) {
  KPacking<kBits>::pack(fit<KPacking<kBits>>(weights), block);
}

template struct KBlock<2, 84, 80, 82>;
template struct KBlock<3, 110, 108, 108>;
template struct KBlock<4, 144, 0, 2>;
template struct KBlock<5, 176, 0, 2>;
template struct KBlock<6, 210, 208, 208>;

namespace {

constexpr uint32_t kQ8CodesAt = 4;
constexpr uint32_t kQ8SumsAt = kQ8CodesAt + kSuperBlock;
constexpr uint32_t kQ8SumOf = 16;

}  // namespace

void Q8_K::decode(const std::byte *block, float *weights) {
  const float d = load<float>(block);
  for (uint32_t j = 0; j < kWeights; ++j) weights[j] = d * static_cast<float>(load<int8_t>(block + kQ8CodesAt + j));
}

void Q8_K::encode(const float *weights, std::byte *block) {
  float extreme = 0;
  for (uint32_t j = 0; j < kWeights; ++j) {
    if (std::fabs(weights[j]) > std::fabs(extreme)) extreme = weights[j];
  }
  const float d = extreme / -127;
  const float inverse = inverse_or_zero(d);
  const bool is_too_small_to_invert = std::isinf(inverse);
  store(block, d);
  for (uint32_t i = 0; i < kWeights / kQ8SumOf; ++i) {
    int sum = 0;
    for (uint32_t j = i * kQ8SumOf; j < (i + 1) * kQ8SumOf; ++j) {
      const float scaled = is_too_small_to_invert ? weights[j] / d : weights[j] * inverse;
      const int code = round_to_code(scaled, -127, 127);
      store(block + kQ8CodesAt + j, static_cast<int8_t>(code));
      sum += code;
    }
    store(block + kQ8SumsAt + i * sizeof(int16_t), static_cast<int16_t>(sum));
  }
}

}  // namespace bonsai::quant
