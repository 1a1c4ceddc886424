// The code that takes logits many at a time against the plain words of the ABI: ties, NaN, both zeros, infinities, and
// vocabularies that are no whole number of anything.
#include "plugins/cpu/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace bonsai::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kVocabularies[] = {1, 15, 31, 32, 33, 64, 100, 1000, 4099};

// `kind` 0: hardly two are equal; 1: many are; 2: nearly all are -infinity; 3: those of 1, with NaN among them.
std::vector<float> random_logits(std::mt19937 &random, uint32_t vocab, uint32_t kind) {
  std::vector<float> logits(vocab);
  for (float &logit : logits) {
    const auto number = static_cast<float>(random() % 2'000'000) * 1e-5f - 10;
    logit = kind == 0 ? number : std::trunc(number);  // -0 among them
    if (kind == 2 && random() % 50 != 0) logit = -kInfinity;
    if (kind == 3 && random() % 9 == 0) logit = std::numeric_limits<float>::quiet_NaN();
    if (random() % 500 == 0) logit = kInfinity;
  }
  return logits;
}

std::vector<int32_t> top_by_sorting(const std::vector<float> &logits, uint32_t k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<uint32_t>(a)], y = logits[static_cast<uint32_t>(b)];
    return std::isnan(x) || std::isnan(y) ? !std::isnan(x) && std::isnan(y) : x > y;
  });
  ids.resize(k);
  return ids;
}

TEST(FindTop, AgreesWithSorting) {
  std::mt19937 random(1);
  for (const uint32_t vocab : kVocabularies) {
    for (uint32_t round = 0; round < 40; ++round) {
      const std::vector<float> logits = random_logits(random, vocab, round % 4);
      const uint32_t k = round < 4 ? vocab : 1 + static_cast<uint32_t>(random()) % std::min(vocab, 60u);
      std::vector<int32_t> ids(k);
      std::vector<uint64_t> ranks(k);
      find_top(logits, ids, ranks);
      ASSERT_EQ(ids, top_by_sorting(logits, k)) << vocab << " logits, " << k << " asked for, round " << round;
    }
  }
}

TEST(AdjustLogits, ForbidsWhatTheMaskDoesNotAllow) {
  std::mt19937 random(2);
  for (const uint32_t vocab : kVocabularies) {
    for (uint32_t round = 0; round < 40; ++round) {
      const std::vector<float> before = random_logits(random, vocab, round % 4);
      std::vector<uint32_t> mask((vocab + 31) / 32);
      for (uint32_t &word : mask)
        word = random() % 3 == 0 ? 0 : random() % 2 == 0 ? ~0u : static_cast<uint32_t>(random());
      bonsai_output output{};
      output.mask = mask.data();
      std::vector<float> expected = before, found = before;
      for (uint32_t i = 0; i < vocab; ++i)
        if (!(mask[i / 32] >> (i % 32) & 1)) expected[i] = -kInfinity;
      adjust_logits(output, found);
      ASSERT_EQ(std::memcmp(found.data(), expected.data(), vocab * sizeof(float)), 0) << vocab << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu
