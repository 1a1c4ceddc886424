// The CUDA backend on a device, as an application uses it.
#include <bonsai/engine.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/model/tiny_model.h"

namespace bonsai::test {
namespace {

const std::string kSeedling = BONSAI_SOURCE_DIR "/models/seedling-q1_0.gguf";

using BackendOptions = std::vector<std::pair<std::string, std::string>>;

EngineOptions on(const std::string &plugin, const std::string &model, const BackendOptions &options = {}) {
  EngineOptions engine;
  engine.model = model;
  engine.backend = plugin;
  engine.backend_strict = true;
  engine.backend_options = options;
  return engine;
}

nlohmann::json golden() { return nlohmann::json::parse(std::ifstream(BONSAI_TEST_DATA "/seedling-golden.json")); }

double relative_error(std::span<const float> values, std::span<const float> expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    difference += std::pow(static_cast<double>(values[i]) - static_cast<double>(expected[i]), 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

// `n` tokens that follow no pattern.
std::vector<int32_t> some_tokens(uint32_t n, uint32_t vocabulary) {
  std::vector<int32_t> tokens(n);
  uint64_t state = 12345;
  for (int32_t &token : tokens) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    token = static_cast<int32_t>((state >> 33) % vocabulary);
  }
  return tokens;
}

// The logits behind the tokens from `from` on.
std::vector<std::vector<float>> logits_from(Session &session, std::span<const int32_t> tokens, size_t from) {
  std::vector<std::vector<float>> kept;
  session.evaluate(tokens, [&](size_t index, std::span<const float> logits) {
    if (index >= from) kept.emplace_back(logits.begin(), logits.end());
  });
  return kept;
}

TEST(CudaDevice, SpeaksTheSeedlingsGoldenText) {
  const nlohmann::json greedy = golden()["greedy"];
  const Engine engine = Engine::load(on(BONSAI_CUDA_PLUGIN, kSeedling));
  EXPECT_EQ(engine.backend().name, "cuda");
  const std::string prompt = golden()["prompts"][0]["text"];
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = static_cast<uint32_t>(greedy["tokens"].size() - golden()["prompts"][0]["tokens"].size());
  options.ignore_eos = true;
  EXPECT_EQ(prompt + engine.generate(prompt, options).text, greedy["text"].get<std::string>());
}

// Positions far beyond one section of attention's, where the block table is long and a prompt comes in many batches:
// against the CPU backend, both with float weights.
TEST(CudaDevice, LongContextsAgreeWithTheCpu) {
  constexpr uint32_t kPrompt = 32'000, kDecoded = 40;
  TinyModel tiny;
  tiny.format = quant::Format::kF16;
  tiny.context = 32'768;
  const TinyModelFile file(tiny);
  const std::vector<int32_t> tokens = some_tokens(kPrompt + kDecoded, kTinyTokens);
  std::vector<std::vector<float>> found[2];
  for (const bool is_cuda : {false, true}) {
    EngineOptions options = on(is_cuda ? BONSAI_CUDA_PLUGIN : BONSAI_CPU_PLUGIN, file.path());
    options.context = tiny.context;
    const Engine engine = Engine::load(options);
    Session session = engine.new_session();
    found[is_cuda] = logits_from(session, {tokens.data(), kPrompt}, kPrompt - 100);
    for (uint32_t i = kPrompt; i < tokens.size(); ++i) {
      found[is_cuda].push_back(logits_from(session, {&tokens[i], 1}, 0)[0]);
    }
  }
  ASSERT_EQ(found[0].size(), 140u);
  ASSERT_EQ(found[1].size(), 140u);
  for (size_t i = 0; i < found[0].size(); ++i) EXPECT_LE(relative_error(found[1][i], found[0][i]), 2e-4) << i;
}

// A captured graph finds positions, lengths and block tables in memory: every step's logits are those of plain
// launches.
TEST(CudaDevice, AThousandReplaysAreAThousandSteps) {
  constexpr uint32_t kSteps = 1000;
  TinyModel tiny;
  tiny.context = 1024;
  const TinyModelFile file(tiny);
  const std::vector<int32_t> tokens = some_tokens(kSteps, kTinyTokens);
  std::vector<std::vector<float>> found[2];
  for (const bool graphs : {false, true}) {
    const Engine engine = Engine::load(on(BONSAI_CUDA_PLUGIN, file.path(), {{"cuda.graphs", graphs ? "on" : "off"}}));
    Session session = engine.new_session();
    for (const int32_t token : tokens) found[graphs].push_back(logits_from(session, {&token, 1}, 0)[0]);
  }
  for (uint32_t i = 0; i < kSteps; ++i) {
    ASSERT_EQ(std::memcmp(found[0][i].data(), found[1][i].data(), found[0][i].size() * sizeof(float)), 0) << i;
  }
}

// The logits of every token, `chunk` tokens at a time.
std::vector<std::vector<float>> logits_in_chunks(const EngineOptions &options, std::span<const int32_t> tokens,
                                                 size_t chunk) {
  const Engine engine = Engine::load(options);
  Session session = engine.new_session();
  std::vector<std::vector<float>> found;
  for (size_t i = 0; i < tokens.size(); i += chunk) {
    for (auto &row : logits_from(session, tokens.subspan(i, std::min(chunk, tokens.size() - i)), 0)) {
      found.push_back(std::move(row));
    }
  }
  return found;
}

// Fused decode kernels, plain ones, and those for several tokens: one set of bytes.
void expect_that_fusion_and_chunking_change_no_byte(const TinyModel &tiny, KvType kv, uint32_t n = 300) {
  const TinyModelFile file(tiny);
  const std::vector<int32_t> tokens = some_tokens(n, kTinyTokens);
  std::vector<std::vector<float>> expected;
  for (const std::string fusion : {"swiglu", "attention", "off"}) {
    // Fusion changes nothing of 12 or 24 tokens' products, and that of gate and up one token's only.
    const std::vector<uint32_t> chunks = fusion == "swiglu"      ? std::vector<uint32_t>{1, 5, 12, 24, n}
                                         : fusion == "attention" ? std::vector<uint32_t>{1}
                                                                 : std::vector<uint32_t>{1, 5, n};
    for (const uint32_t chunk : chunks) {
      EngineOptions options = on(BONSAI_CUDA_PLUGIN, file.path(), {{"cuda.fusion", fusion}});
      options.kv = kv;
      const std::vector<std::vector<float>> found = logits_in_chunks(options, tokens, chunk);
      if (expected.empty()) expected = found;
      EXPECT_EQ(found, expected) << quant::traits(tiny.format).name << ", fusion " << fusion << ", chunks of " << chunk;
    }
  }
}

TEST(CudaDevice, FusionAndChunkingChangeNoByte) {
  for (const quant::Format format : {quant::Format::kQ1_0_G128, quant::Format::kTQ2_0_G128, quant::Format::kF16}) {
    TinyModel tiny;
    tiny.format = format;
    tiny.head_dim = 64;
    tiny.context = 512;
    expect_that_fusion_and_chunking_change_no_byte(tiny, KvType::kF16);
  }
}

// Rows of more segments than the usual blocks have warps, and more than have room for their sums at a time where 12 or
// 24 tokens are multiplied.
TEST(CudaDevice, FusionAndChunkingChangeNoByteOfLongRows) {
  for (const quant::Format format : {quant::Format::kQ1_0_G128, quant::Format::kTQ2_0_G128}) {
    TinyModel tiny;
    tiny.format = format;
    tiny.ffn = 17 * 512;
    tiny.head_dim = 64;
    expect_that_fusion_and_chunking_change_no_byte(tiny, KvType::kF16, 50);
  }
}

// Values so small that weights of attention times their scales are subnormal halves, beside zeros.
TEST(CudaDevice, FusionAndChunkingChangeNoByteOfTinyValues) {
  TinyModel tiny;
  tiny.format = quant::Format::kF16;
  tiny.context = 512;
  tiny.factors["attn_v"] = 0x1p-14;
  expect_that_fusion_and_chunking_change_no_byte(tiny, KvType::kQ8_0);
}

// Where a kernel starts before the one ahead has ended and reads what that is about to write, it shows here: behind a
// prompt whose kernels take long, in tokens whose kernels do not, with and without graphs.
TEST(CudaDevice, OverlapChangesNoByte) {
  constexpr size_t kPrompt = 512, kDecoded = 64;
  TinyModel tiny;
  tiny.context = 1024;
  const TinyModelFile file(tiny);
  const std::vector<int32_t> tokens = some_tokens(kPrompt + kDecoded, kTinyTokens);
  std::vector<std::vector<float>> expected;
  for (const char *overlap : {"off", "on"}) {
    for (const char *graphs : {"on", "off"}) {
      const Engine engine =
          Engine::load(on(BONSAI_CUDA_PLUGIN, file.path(), {{"cuda.overlap", overlap}, {"cuda.graphs", graphs}}));
      Session session = engine.new_session();
      std::vector<std::vector<float>> found = logits_from(session, {tokens.data(), kPrompt}, 0);
      for (size_t i = kPrompt; i < tokens.size(); ++i) found.push_back(logits_from(session, {&tokens[i], 1}, 0)[0]);
      if (expected.empty()) expected = found;
      EXPECT_EQ(found, expected) << "overlap " << overlap << ", graphs " << graphs;
    }
  }
}

// The same where two passes are in flight, each with the token that the other chose, and nothing is copied back between
// them: what a pass reads before it waits must be what the one ahead has stored.
TEST(CudaDevice, OverlapChangesNoByteOfTokensThatAreChosen) {
  constexpr uint32_t kPrompt = 200, kChosen = 160;  // over the end of attention's first section
  for (const uint32_t head_dim : {64u, 128u}) {
    TinyModel tiny;
    tiny.context = 512;
    tiny.head_dim = head_dim;
    const TinyModelFile file(tiny);
    for (const KvType kv : {KvType::kF16, KvType::kQ8_0}) {
      std::vector<int32_t> expected;
      std::vector<std::vector<float>> expected_logits;
      for (const char *overlap : {"off", "on"}) {
        for (const char *graphs : {"on", "off"}) {
          EngineOptions options =
              on(BONSAI_CUDA_PLUGIN, file.path(), {{"cuda.overlap", overlap}, {"cuda.graphs", graphs}});
          options.kv = kv;
          const Engine engine = Engine::load(options);
          Session session = engine.new_session();
          session.append_tokens(some_tokens(kPrompt, kTinyTokens));
          GenerateOptions greedy;
          greedy.sampling.temperature = 0;
          greedy.max_tokens = kChosen;
          greedy.ignore_eos = true;
          const std::vector<int32_t> chosen = session.generate(greedy).tokens;
          const int32_t next = 3;
          const std::vector<std::vector<float>> logits = logits_from(session, {&next, 1}, 0);
          ASSERT_EQ(chosen.size(), kChosen);
          if (expected.empty()) expected = chosen, expected_logits = logits;
          EXPECT_EQ(chosen, expected) << "heads of " << head_dim << ", overlap " << overlap << ", graphs " << graphs;
          EXPECT_EQ(logits, expected_logits) << "heads of " << head_dim << ", overlap " << overlap;
        }
      }
    }
  }
}

// Heads that are packed where they are finished: by one block or, behind a long prompt, where sections are folded;
// recorded in a graph and not.
void expect_that_fusion_changes_no_byte_behind(const TinyModel &tiny, size_t prompt) {
  constexpr size_t kDecoded = 40;
  const TinyModelFile file(tiny);
  const std::vector<int32_t> tokens = some_tokens(static_cast<uint32_t>(prompt + kDecoded), kTinyTokens);
  std::vector<std::vector<float>> expected;
  for (const BackendOptions &backend_options :
       {BackendOptions{{"cuda.fusion", "off"}}, BackendOptions{{"cuda.fusion", "attention"}},
        BackendOptions{{"cuda.fusion", "swiglu"}}, BackendOptions{{"cuda.fusion", "swiglu"}, {"cuda.overlap", "off"}},
        BackendOptions{{"cuda.fusion", "swiglu"}, {"cuda.graphs", "off"}}}) {
    EngineOptions options = on(BONSAI_CUDA_PLUGIN, file.path(), backend_options);
    options.context = tiny.context;
    const Engine engine = Engine::load(options);
    Session session = engine.new_session();
    logits_from(session, {tokens.data(), prompt}, prompt - 1);
    std::vector<std::vector<float>> found;
    for (size_t i = prompt; i < tokens.size(); ++i) found.push_back(logits_from(session, {&tokens[i], 1}, 0)[0]);
    if (expected.empty()) expected = found;
    EXPECT_EQ(found, expected) << quant::traits(tiny.format).name << ", prompt of " << prompt;
  }
}

TEST(CudaDevice, FusionChangesNoByteOfHeadsThatArePackedAtOnce) {
  for (const quant::Format format : {quant::Format::kQ1_0_G128, quant::Format::kTQ2_0_G128, quant::Format::kQ4_K}) {
    TinyModel wide;
    wide.format = format;
    wide.hidden = 2560;
    wide.ffn = 4096;
    wide.heads = 16;
    wide.kv_heads = 8;
    wide.head_dim = 128;
    expect_that_fusion_changes_no_byte_behind(wide, 64);
  }
  TinyModel long_one;
  long_one.head_dim = 128;
  long_one.context = 18'000;
  expect_that_fusion_changes_no_byte_behind(long_one, 17'500);
}

TEST(CudaDevice, KvTypesAgreeWithTheCpu) {
  constexpr uint32_t kTokens = 700;
  TinyModel tiny;
  tiny.format = quant::Format::kF16;
  tiny.context = 1024;
  const TinyModelFile file(tiny);
  const std::vector<int32_t> tokens = some_tokens(kTokens, kTinyTokens);
  for (const KvType kv : {KvType::kF16, KvType::kQ8_0, KvType::kF32}) {
    std::vector<std::vector<float>> found[2];
    for (const bool is_cuda : {false, true}) {
      EngineOptions options = on(is_cuda ? BONSAI_CUDA_PLUGIN : BONSAI_CPU_PLUGIN, file.path());
      options.kv = kv;
      const Engine engine = Engine::load(options);
      Session session = engine.new_session();
      found[is_cuda] = logits_from(session, tokens, kTokens - 50);
    }
    // A key that lies on the edge between two 8-bit codes may fall to either side.
    const double bound = kv == KvType::kQ8_0 ? 5e-3 : 2e-4;
    for (size_t i = 0; i < found[0].size(); ++i) {
      EXPECT_LE(relative_error(found[1][i], found[0][i]), bound) << static_cast<int>(kv) << ", " << i;
    }
  }
}

}  // namespace
}  // namespace bonsai::test
