#include "host/sampling/token_mask.h"

#include <array>
#include <cstring>
#include <limits>

namespace bonsai::host {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// Four logits at a time, by GCC's and Clang's vectors: bit for bit, a mask over 151,936 logits took 5 % of a decode
// step.
using Four = float __attribute__((vector_size(16)));
using FourBits = int32_t __attribute__((vector_size(16)));

// All bits of those places that a nibble allows.
constexpr std::array<std::array<int32_t, 4>, 16> make_keep() {
  std::array<std::array<int32_t, 4>, 16> keep{};
  for (size_t nibble = 0; nibble < 16; ++nibble)
    for (size_t i = 0; i < 4; ++i) keep[nibble][i] = (nibble >> i & 1) != 0 ? -1 : 0;
  return keep;
}
constexpr std::array<std::array<int32_t, 4>, 16> kKeep = make_keep();

void apply_word(uint32_t word, float *logits) {
  constexpr Four kForbiddenFour = {kForbidden, kForbidden, kForbidden, kForbidden};
  for (size_t i = 0; i < 32; i += 4, word >>= 4) {
    Four four;
    FourBits keep;
    std::memcpy(&four, logits + i, sizeof four);
    std::memcpy(&keep, kKeep[word & 15].data(), sizeof keep);
    four = keep ? four : kForbiddenFour;
    std::memcpy(logits + i, &four, sizeof four);
  }
}

}  // namespace

void apply_mask(std::span<const uint32_t> mask, std::span<float> logits) {
  const size_t n_whole = logits.size() / 32;
  for (size_t i = 0; i < n_whole; ++i)
    if (mask[i] != ~0u) apply_word(mask[i], logits.data() + 32 * i);
  for (size_t i = 32 * n_whole; i < logits.size(); ++i)
    if ((mask[n_whole] >> (i % 32) & 1) == 0) logits[i] = kForbidden;
}

}  // namespace bonsai::host
