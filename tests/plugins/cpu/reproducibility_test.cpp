// The same bytes for any thread count, any batch and prompt chunking a token travels in, and any
// instruction-set tier.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tests/plugins/cpu/backend_support.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bonsai::test {
namespace {

using quant::Format;

constexpr uint32_t kTokens = 75;         // beyond the first chunk of positions that attention takes
constexpr uint32_t kFirstCompared = 62;  // logits from here on are compared: both sides of the chunk's end

constexpr const char *kThreadCounts[] = {"1", "2", "5"};

using Bits = std::vector<uint32_t>;

void append_bits(Bits &bits, const std::vector<float> &values) {
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
}

// How a prompt travels: in chunks of these sizes (the last repeats), perhaps in batches with another sequence.
struct Journey {
  const char *name;
  std::vector<uint32_t> chunks;
  bool in_company;
};

constexpr size_t kUnevenChunks = 2;  // of the journeys

const std::vector<Journey> &journeys() {
  static const std::vector<Journey> all = {{"token by token", {1}, false},
                                           {"all at once", {kTokens}, false},
                                           {"in uneven chunks", {7, 1, 30, 2}, false},
                                           {"with another sequence", {3, 40, 1}, true}};
  return all;
}

// Logits of the compared tokens, after the journey.
Bits travel(OpenSession &session, const Journey &journey) {
  const std::vector<int32_t> tokens = some_tokens(kTokens, kTinyTokens), others = some_tokens(200, kTinyTokens, 9);
  const std::vector<uint32_t> blocks = shuffled_blocks(12);
  Bits bits;
  uint32_t done = 0;
  for (size_t step = 0; done < kTokens; ++step) {
    const uint32_t chunk = journey.chunks[std::min(step, journey.chunks.size() - 1)];
    const uint32_t end = std::min(done + chunk, kTokens);
    TestBatch batch;
    batch.block_table = {{blocks.begin(), blocks.begin() + 5}, {blocks.begin() + 5, blocks.end()}};
    TestOutputs outputs(kTinyTokens, session.model.spec.hidden);
    if (journey.in_company) batch.add(others[step], static_cast<uint32_t>(step), 1);
    for (uint32_t i = done; i < end; ++i) {
      if (i >= kFirstCompared) outputs.logits(static_cast<uint32_t>(batch.positions.size()));
      batch.add(tokens[i], i, 0);
      if (journey.in_company && i % 3 == 0) outputs.argmax(static_cast<uint32_t>(batch.positions.size() - 1));
    }
    session.forward(batch, outputs);
    for (uint32_t i = 0; i < outputs.size(); ++i) append_bits(bits, outputs[i].logits);
    done = end;
  }
  return bits;
}

Bits run(const Tier &tier, const std::string &threads, const model::Model &model, const Journey &journey,
         bonsai_kv_dtype kv_dtype) {
  OpenDevice device(tier.plugin, {{"cpu.threads", threads}, {"cpu.isa", tier.isa}});
  EXPECT_EQ(device.status().kernel, tier.kernel);
  EXPECT_EQ(std::to_string(device.status().threads), threads);
  UploadedModel uploaded(device, model);
  bonsai_session_config config = small_config();
  config.kv_dtype = kv_dtype;
  OpenSession session(uploaded, config);
  return travel(session, journey);
}

// Every tier, journey and number of threads against the portable tier on one thread, token by token. Where there are
// many models, the numbers take turns over the journeys.
enum class Threads { kEveryNumber, kInTurns };

bool is_wanted(const Tier &tier, size_t journey, size_t threads, Threads cover) {
  const bool turn = threads == (journey + 1) % std::size(kThreadCounts);
  if (!tier.emulated) return cover == Threads::kEveryNumber || turn;
  return cover == Threads::kEveryNumber ? threads == 1 && journey >= kUnevenChunks : turn && journey == kUnevenChunks;
}

void expect_same_bytes(const TinyModel &options, bonsai_kv_dtype kv_dtype, Threads cover = Threads::kEveryNumber) {
  const LoadedModel loaded(options);
  const Bits expected = run(testable_tiers()[0], "1", loaded.model, journeys()[0], kv_dtype);
  ASSERT_EQ(expected.size(), (kTokens - kFirstCompared) * kTinyTokens);
  for (const Tier &tier : testable_tiers()) {
    for (size_t journey = 0; journey < journeys().size(); ++journey) {
      for (size_t threads = 0; threads < std::size(kThreadCounts); ++threads) {
        if (!is_wanted(tier, journey, threads, cover)) continue;
        EXPECT_TRUE(run(tier, kThreadCounts[threads], loaded.model, journeys()[journey], kv_dtype) == expected)
            << tier.kernel << " on " << kThreadCounts[threads] << " threads, " << journeys()[journey].name;
      }
    }
  }
}

class FormatReproducibility : public testing::TestWithParam<Format> {};

TEST_P(FormatReproducibility, BytesDoNotDependOnTierThreadsOrBatch) {
  TinyModel options = tiny_model_of(GetParam());
  options.layers = 1;
  expect_same_bytes(options, BONSAI_KV_F16, Threads::kInTurns);
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, FormatReproducibility, testing::ValuesIn(matrix_formats(kPlugin)),
                         [](const auto &info) { return std::string(quant::traits(info.param).name); });

TEST(Reproducibility, BytesDoNotDependOnTierThreadsOrBatchWithFormatsMixedInOneWeight) {
  TinyModel options = tiny_model_of(Format::kQ4_K);
  options.layers = 1;
  options.formats = {{"attn_k", Format::kQ1_0_G128}, {"attn_v", Format::kQ6_K}, {"ffn_up", Format::kF16}};
  expect_same_bytes(options, BONSAI_KV_F16);
}

TEST(Reproducibility, BytesDoNotDependOnTierThreadsOrBatchWithAQ8Cache) {
  expect_same_bytes({.layers = 1, .heads = 8, .kv_heads = 1}, BONSAI_KV_Q8_0);
}

TEST(Reproducibility, BytesDoNotDependOnTierThreadsOrBatchWithAnF32CacheAndOddHeads) {
  expect_same_bytes({.layers = 1, .heads = 3, .kv_heads = 1, .head_dim = 10, .format = Format::kF32}, BONSAI_KV_F32);
}

TEST(Reproducibility, BytesDoNotDependOnTheBlockSize) {
  const LoadedModel loaded({.layers = 1});
  OpenDevice device(kPlugin);
  UploadedModel uploaded(device, loaded.model);
  std::vector<Bits> results;
  for (const uint32_t block_size : {16u, 32u, 64u, 128u}) {
    bonsai_session_config config = small_config();
    config.block_size = block_size;
    OpenSession session(uploaded, config);
    results.push_back(travel(session, journeys()[2]));
  }
  for (const Bits &result : results) EXPECT_TRUE(result == results[0]);
}

TEST(Reproducibility, SelectionGivesTheSameBytesOnEveryTier) {
  const LoadedModel loaded({.layers = 1});
  std::vector<Bits> results;
  for (const Tier &tier : testable_tiers()) {
    OpenDevice device(tier.plugin, {{"cpu.isa", tier.isa}});
    UploadedModel uploaded(device, loaded.model);
    OpenSession session(uploaded, small_config());
    TestBatch batch;
    batch.block_table = {{0}};
    batch.add(5, 0);
    TestOutputs outputs(kTinyTokens, uploaded.spec.hidden);
    outputs.top(0, 50).temperature = 0.7f;
    outputs.hidden_state(0);
    session.forward(batch, outputs);
    Bits &bits = results.emplace_back(outputs[0].top_ids.begin(), outputs[0].top_ids.end());
    append_bits(bits, outputs[0].top_logits);
    append_bits(bits, {outputs[0].log_sum_exp});
    append_bits(bits, outputs[1].hidden);
  }
  for (const Bits &result : results) EXPECT_TRUE(result == results[0]);
}

#if defined(__x86_64__)
TEST(Reproducibility, BytesDoNotDependOnTheCallersFloatingPointSettings) {
  const LoadedModel loaded({.layers = 1, .format = Format::kF32});
  OpenDevice device(kPlugin, {{"cpu.threads", "2"}});
  UploadedModel uploaded(device, loaded.model);
  OpenSession session(uploaded, small_config());
  const Bits expected = travel(session, journeys()[2]);
  const unsigned before = _mm_getcsr();
  const unsigned upward_without_subnormals = (before & ~_MM_ROUND_MASK) | _MM_ROUND_UP | _MM_FLUSH_ZERO_ON | 0x40;
  _mm_setcsr(upward_without_subnormals);
  const Bits actual = travel(session, journeys()[2]);
  const unsigned control_bits = ~0x3Fu;  // the lower six record exceptions
  EXPECT_EQ(_mm_getcsr() & control_bits, upward_without_subnormals & control_bits) << "the caller's settings are gone";
  _mm_setcsr(before);
  EXPECT_TRUE(actual == expected);
}
#endif

}  // namespace
}  // namespace bonsai::test
