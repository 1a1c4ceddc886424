// What a device picks out of a row leads to the same choices as the whole row, to the last bit; and where it would not,
// the whole row is asked for.
#include "host/sampling/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "host/sampling/sampler.h"
#include "host/sampling/token_mask.h"

namespace bonsai::host {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kVocabulary = 300;
constexpr SelectionLimits kAll = {.max_k = 1024, .adjusts = true};

// The device: what the ABI says of ARGMAX and TOP_K.
TopLogits select(const Selection &selection, std::vector<float> logits) {
  for (size_t i = 0; i < selection.ids.size(); ++i) {
    float &logit = logits[static_cast<size_t>(selection.ids[i])];
    logit = (logit > 0 ? logit / selection.repeat[i] : logit * selection.repeat[i]) + selection.add[i];
  }
  if (!selection.mask.empty()) apply_mask(selection.mask, logits);
  TopLogits top;
  top.ids.resize(logits.size());
  std::iota(top.ids.begin(), top.ids.end(), 0);
  const auto rank = [&](int32_t id) {
    const float logit = logits[static_cast<size_t>(id)];
    return std::isnan(logit) ? std::pair(1, 0.0f) : std::pair(0, -logit);
  };
  std::stable_sort(top.ids.begin(), top.ids.end(), [&](int32_t a, int32_t b) { return rank(a) < rank(b); });
  top.ids.resize(selection.k);
  for (const int32_t id : top.ids) top.logits.push_back(logits[static_cast<size_t>(id)]);
  return top;
}

// A coarse grid, so that ties are many; every tenth logit is -infinity.
std::vector<float> random_logits(std::mt19937 &random, bool coarse) {
  std::vector<float> logits(kVocabulary);
  for (float &logit : logits) {
    const auto number = static_cast<float>(random() % 20'000) * 0.001f - 10;
    logit = random() % 10 == 0 ? -kInfinity : coarse ? std::floor(number) : number;
  }
  return logits;
}

struct Setting {
  std::string name;
  SamplingOptions options;
  bool is_masked = false;
};
void PrintTo(const Setting &setting, std::ostream *out) { *out << setting.name; }

SamplingOptions preset(std::string_view name) {
  SamplingOptions options = *sampling_preset(name);
  options.seed = 7;
  return options;
}

// Presets, each plain, with penalties, with bias, with both on different tokens, under a mask.
std::vector<Setting> settings() {
  std::vector<Setting> result;
  for (const std::string name : {"greedy", "balanced", "creative", "code", "one", "min"}) {
    SamplingOptions options = preset(name == "one" || name == "min" ? "balanced" : name);
    if (name == "one") options.top_k = 1;
    if (name == "min") options.min_p = 0.1f;
    result.push_back({name, options});
    result.push_back({name + "_masked", options, true});
    SamplingOptions biased = options;
    biased.logit_bias = {{9, 3.1f}, {5, -kInfinity}, {200, -0.7f}, {5, 1.0f}, {6, 2.0f}, {6, -kInfinity}};
    result.push_back({name + "_biased", biased});
    result.push_back({name + "_biased_masked", biased, true});
    options.repetition_penalty = 1.3f;
    result.push_back({name + "_repetition", options});
    options.presence_penalty = 0.4f;
    options.frequency_penalty = 0.3f;
    result.push_back({name + "_penalties", options});
    result.push_back({name + "_penalties_masked", options, true});
    options.penalty_window = -1;
    options.repetition_penalty = 0.8f;
    options.presence_penalty = -0.9f;
    result.push_back({name + "_encouraged", options});
  }
  return result;
}

class SelectionChooses : public testing::TestWithParam<Setting> {};

TEST_P(SelectionChooses, AsTheWholeRowDoes) {
  std::mt19937 random(3);
  Sampler whole = *Sampler::create(GetParam().options, kVocabulary);
  Sampler selecting = *Sampler::create(GetParam().options, kVocabulary);
  for (int i = 0; i < 400; ++i) {
    std::vector<float> logits = random_logits(random, i % 2 == 0);
    std::vector<uint32_t> mask((kVocabulary + 31) / 32);
    for (uint32_t &word : mask) word = GetParam().is_masked ? random() & random() : ~0u;
    Selection selection = selecting.selection(kAll);
    ASSERT_GT(selection.k, 0u);
    if (GetParam().is_masked) selection.mask = mask;
    const auto found = selecting.sample(select(selection, logits));
    apply_mask(mask, logits);
    const auto expected = whole.sample(logits);
    ASSERT_TRUE(expected);
    ASSERT_EQ(found.value_or(-1), *expected) << "row " << i;
    whole.remember({&*expected, 1});
    selecting.remember({&*expected, 1});
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, SelectionChooses, testing::ValuesIn(settings()),
                         [](const auto &info) { return info.param.name; });

// Penalties that are allowed, however extreme, neither fail nor choose otherwise where a device selects.
TEST(Selection, OfExtremePenaltiesChoosesAsTheWholeRowDoes) {
  for (const float penalty : {1e-45f, 1e-38f, 1e-21f, 1e-19f, 0.1f, 1e19f, 1e21f, 3e38f}) {
    for (const std::string name : {"greedy", "balanced"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, penalty));
      SamplingOptions options = preset(name);
      options.repetition_penalty = penalty;
      std::mt19937 random(3);
      Sampler whole = *Sampler::create(options, kVocabulary), selecting = *Sampler::create(options, kVocabulary);
      for (int i = 0; i < 100; ++i) {
        std::vector<float> logits = random_logits(random, true);
        std::vector<float> copy = logits;
        const Selection selection = selecting.selection(kAll);
        const auto found = selection.k > 0 ? selecting.sample(select(selection, logits)) : selecting.sample(copy);
        const auto expected = whole.sample(logits);
        ASSERT_TRUE(expected) << expected.error().message;
        ASSERT_TRUE(found) << found.error().message;
        ASSERT_EQ(*found, *expected) << "row " << i;
        whole.remember({&*expected, 1});
        selecting.remember({&*expected, 1});
      }
    }
  }
}

Selection selection_of(const SamplingOptions &options, const SelectionLimits &limits,
                       const std::vector<int32_t> &text = {1, 2, 3}) {
  Sampler sampler = *Sampler::create(options, kVocabulary);
  sampler.remember(text);
  return sampler.selection(limits);
}

TEST(Selection, IsWhatTheSamplerNeedsAndNoMore) {
  EXPECT_EQ(selection_of(preset("greedy"), kAll).k, 1u);
  SamplingOptions options = preset("balanced");
  EXPECT_EQ(selection_of(options, kAll).k, 40u);
  EXPECT_TRUE(selection_of(options, kAll).ids.empty());
  options.logit_bias = {{5, 2.0f}};
  EXPECT_TRUE(selection_of(options, kAll).is_lasting);
  options.presence_penalty = 0.5f;
  const Selection selection = selection_of(options, kAll, {8, 9, 3, 8});
  EXPECT_FALSE(selection.is_lasting);
  EXPECT_EQ(selection.ids, (std::vector<int32_t>{3, 5, 8, 9})) << "rising, as devices like them";
  EXPECT_EQ(selection.add, (std::vector<float>{-0.5f, 2, -0.5f, -0.5f}));
}

TEST(SelectionIsTheWholeRow, WhereTheDeviceCannotSelect) {
  SamplingOptions options = preset("balanced");
  EXPECT_EQ(selection_of(options, {}).k, 0u);
  EXPECT_EQ(selection_of(options, {.max_k = 39}).k, 0u);
  EXPECT_EQ(selection_of(options, {.max_k = 40}).k, 40u);
  options.frequency_penalty = 0.5f;
  EXPECT_EQ(selection_of(options, {.max_k = 40}).k, 0u);
  EXPECT_EQ(selection_of(options, {.max_k = 40}, {}).k, 40u) << "there is nothing to penalise yet";
  options = preset("greedy");
  options.logit_bias = {{5, 2.0f}};
  EXPECT_EQ(selection_of(options, {.max_k = 40}).k, 0u);
}

TEST(SelectionIsTheWholeRow, WhereEveryTokenIsACandidate) {
  SamplingOptions options = preset("balanced");
  options.top_k = 0;
  EXPECT_EQ(selection_of(options, kAll).k, 0u);
  options.top_k = kVocabulary;
  EXPECT_EQ(selection_of(options, kAll).k, 0u);
}

TEST(SelectionIsTheWholeRow, WhereTheDeviceWouldRoundOtherwise) {
  SamplingOptions options = preset("greedy");
  options.logit_bias = {{5, 0.1f}, {5, 0.2f}};
  EXPECT_EQ(selection_of(options, kAll).k, 0u);
  options.logit_bias = {{5, 0.1f}};
  options.repetition_penalty = 1.1f;
  EXPECT_EQ(selection_of(options, kAll, {4, 6}).k, 1u);
  EXPECT_EQ(selection_of(options, kAll, {4, 5}).k, 0u) << "a bias and a penalty";
  options.logit_bias = {{5, -kInfinity}};
  const Selection forbidden = selection_of(options, kAll, {4, 5});
  EXPECT_EQ(forbidden.ids, (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(forbidden.add[1], -kInfinity);
  options.frequency_penalty = 3e38f;
  EXPECT_EQ(selection_of(options, kAll, {4, 4}).k, 0u) << "a penalty that is not finite";
}

TEST(SelectionRefuses, RowsThatAreNoDistribution) {
  const auto message = [](const SamplingOptions &options, const std::vector<float> &logits) {
    Sampler sampler = *Sampler::create(options, kVocabulary);
    Selection selection = sampler.selection(kAll);
    selection.k = std::min<uint32_t>(selection.k, 2);
    const auto token = sampler.sample(select(selection, logits));
    return token ? "chose " + std::to_string(*token) : token.error().message;
  };
  for (const std::string name : {"greedy", "balanced"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(message(preset(name), {kNaN, kNaN, kNaN}), "the model produced NaN logits");
    EXPECT_EQ(message(preset(name), {1, kInfinity, 2}), "the model produced infinite logits");
    EXPECT_EQ(message(preset(name), {-kInfinity, -kInfinity}), "no token is allowed: every logit is -infinity");
  }
  EXPECT_EQ(message(preset("balanced"), {1, kNaN, -kInfinity}), "chose 0") << "the two largest are numbers";
  EXPECT_EQ(message(preset("balanced"), {1, kNaN}), "the model produced NaN logits");
}

}  // namespace
}  // namespace bonsai::host
