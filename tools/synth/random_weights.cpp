#include "tools/synth/random_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace bonsai::synth {
namespace {

constexpr size_t kPoolWeights = size_t{1} << 17;  // few enough for the slowest encoder
constexpr size_t kLeastWeightsPerPick = 32;       // single floats are copied in runs

}  // namespace

uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

float Random::symmetric() { return static_cast<float>(static_cast<int64_t>(next() >> 40) - (1 << 23)) * 0x1p-23f; }

WeightPool::WeightPool(const quant::FormatTraits &format, float standard_deviation, uint64_t seed) {
  const size_t pick_weights = std::max<size_t>(format.block_weights, kLeastWeightsPerPick);
  picks_ = kPoolWeights / pick_weights;
  pick_bytes_ = quant::row_bytes(format, pick_weights);
  const float range = standard_deviation * std::sqrt(3.0f);  // a uniform distribution's half width
  Random random(seed);
  std::vector<float> weights(picks_ * pick_weights);
  for (float &w : weights) w = range * random.symmetric();
  pool_.resize(picks_ * pick_bytes_);
  format.encode(weights.data(), pool_.data(), weights.size());
}

void WeightPool::fill(std::span<std::byte> blocks, uint64_t seed) const {
  Random random(seed);
  for (size_t at = 0; at < blocks.size(); at += pick_bytes_) {
    const size_t pick = random.next() % picks_;
    std::memcpy(blocks.data() + at, pool_.data() + pick * pick_bytes_, std::min(pick_bytes_, blocks.size() - at));
  }
}

}  // namespace bonsai::synth
