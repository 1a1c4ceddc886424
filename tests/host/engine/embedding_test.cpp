// One vector for a text: against the judge, at every level, however many passes it takes, and when a backend fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <stdexcept>
#include <stop_token>

#include "core/model/weights.h"
#include "core/reference/reference.h"
#include "tests/host/engine/seedling.h"
#include "tests/model/tiny_model.h"

namespace bonsai {
namespace {

constexpr double kBound = 1e-3;  // of 1 - cosine
constexpr Pooling kBoth[] = {Pooling::kMean, Pooling::kLast};
constexpr const char *kTale =
    "Once upon a time there was a king who had three daughters, and the youngest was so beautiful that the sun itself, "
    "which has seen so much, was astonished whenever it shone in her face.";

// The backends that fail, when they are asked to: until then the CPU at levels 0, 1 and 2.
EngineOptions options_for(const std::string &backend) {
  EngineOptions options = seedling_options();
  options.backend = backend == "cpu" ? backend : BONSAI_BINARY_DIR "/tests/backends/libbonsai_" + backend + ".so";
  options.backend_strict = true;
  return options;
}

template <class A, class B>
double cosine(const std::vector<A> &a, const std::vector<B> &b) {
  EXPECT_EQ(a.size(), b.size());
  const double length_a = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
  const double length_b = std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0) / std::sqrt(length_a * length_b);
}

// The judge's, not normalised.
std::vector<double> reference_embedding(const std::vector<int32_t> &tokens, Pooling pooling) {
  const auto model = model::load_model(seedling_file());
  if (!model) throw std::runtime_error(model.error().message);
  reference::Evaluator evaluator(*model, reference::KvType::kF16);
  std::vector<double> sum(model->config.hidden);
  for (const int32_t token : tokens) {
    if (!evaluator.run({&token, 1})) throw std::runtime_error("the judge refuses");
    const std::vector<double> &hidden = evaluator.last_hidden();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = pooling == Pooling::kMean ? sum[i] + hidden[i] : hidden[i];
  }
  return sum;
}

// As Engine::embed() sees a text: the seedling wants its BOS.
std::vector<int32_t> tale_tokens(const Engine &engine) {
  std::vector<int32_t> tokens = engine.tokenize(kTale);
  tokens.insert(tokens.begin(), golden_greedy().tokens.front());
  return tokens;
}

TEST(Embedding, IsThatOfTheReferenceAtEveryLevel) {
  for (const Pooling pooling : kBoth) {
    std::vector<std::vector<float>> found;
    for (const char *backend : {"failing_gemv", "failing_layers", "failing", "cpu"}) {
      const Engine engine = Engine::load(options_for(backend));
      EXPECT_EQ(engine.backend().level, std::min<int>(static_cast<int>(found.size()), 2));
      found.push_back(engine.embed(kTale, {.pooling = pooling}));
      EXPECT_LE(1 - cosine(found.back(), reference_embedding(tale_tokens(engine), pooling)), kBound) << backend;
      EXPECT_NEAR(std::inner_product(found.back().begin(), found.back().end(), found.back().begin(), 0.0), 1, 1e-6);
    }
    EXPECT_EQ(found[1], found[2]);
    EXPECT_EQ(found[2], found[3]);
    EXPECT_LE(1 - cosine(found[0], found[3]), kBound);
  }
}

TEST(Embedding, IsEmptyOnceItIsCancelled) {
  const Engine engine = load_seedling();
  std::stop_source stop;
  EmbeddingOptions options = {.batch_tokens = 4, .cancel = stop.get_token()};
  EXPECT_EQ(engine.embed(kTale, options), engine.embed(kTale));
  stop.request_stop();
  EXPECT_TRUE(engine.embed(kTale, options).empty());
}

TEST(Embedding, DoesNotDependOnTheCallersRounding) {
  const Engine engine = load_seedling();
  for (const Pooling pooling : kBoth) {
    const std::vector<float> expected = engine.embed(kTale, {.pooling = pooling});
    std::fesetround(FE_UPWARD);
    const std::vector<float> rounded = engine.embed(kTale, {.pooling = pooling});
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(rounded, expected);
  }
}

TEST(Embedding, PoolsAsItWasAskedTo) {
  const Engine engine = load_seedling();
  const auto tokens = tale_tokens(engine);
  for (const Pooling pooling : kBoth) {
    const auto found = engine.embed(kTale, {.pooling = pooling});
    const Pooling other = pooling == Pooling::kMean ? Pooling::kLast : Pooling::kMean;
    EXPECT_GT(1 - cosine(found, reference_embedding(tokens, other)), 10 * kBound);
    EXPECT_EQ(engine.embed_tokens(tokens, {.pooling = pooling}), found);
  }
  const std::vector<int32_t> one = {tokens.front()};
  EXPECT_EQ(engine.embed_tokens(one, {.pooling = Pooling::kMean}),
            engine.embed_tokens(one, {.pooling = Pooling::kLast}));
}

// A text of so many tokens, in one pass and in others.
void expect_same_bytes(uint32_t n_tokens, std::initializer_list<uint32_t> batch_sizes) {
  EngineOptions options = seedling_options();
  options.threads = 1;
  const Engine engine = Engine::load(options);
  const std::vector<int32_t> tale = golden_greedy().tokens;
  std::vector<int32_t> tokens;
  while (tokens.size() < n_tokens) tokens.insert(tokens.end(), tale.begin(), tale.end());
  tokens.resize(n_tokens);
  for (const Pooling pooling : kBoth) {
    const auto whole = engine.embed_tokens(tokens, {.pooling = pooling, .batch_tokens = n_tokens});
    for (const uint32_t batch_tokens : batch_sizes)
      EXPECT_EQ(engine.embed_tokens(tokens, {.pooling = pooling, .batch_tokens = batch_tokens}), whole) << batch_tokens;
  }
}

TEST(Embedding, IsTheSameBytesForAnyBatchSize) {
  expect_same_bytes(600, {37, 512, 599, 5000});
  expect_same_bytes(70, {1, 7, 32, 69});
}

TEST(Embedding, TakesSpecialTokensInATextForPlainText) {
  const Engine engine = load_seedling();
  std::vector<int32_t> tokens = engine.tokenize("The end<|endoftext|>", false);
  tokens.insert(tokens.begin(), golden_greedy().tokens.front());
  EXPECT_EQ(engine.embed("The end<|endoftext|>"), engine.embed_tokens(tokens));
}

TEST(Embedding, UsesTheWholeContextAndNotMore) {
  EngineOptions options = seedling_options();
  options.context = 64;
  const Engine engine = Engine::load(options);
  const std::vector<int32_t> tokens(65, 258);
  EXPECT_EQ(engine.embed_tokens(std::span(tokens).first(64)).size(), engine.embed("a").size());
  const Thrown thrown = thrown_by([&] { engine.embed_tokens(tokens); });
  EXPECT_EQ(thrown.kind, ErrorKind::kContextFull);
  EXPECT_EQ(thrown.message, "context full: 65 tokens to embed, room for 64");
}

TEST(Embedding, RefusesWhatIsNoTextAndNoOption) {
  const Engine engine = load_seedling();
  const auto message = [](auto action) {
    const Thrown thrown = thrown_by(action);
    EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
    return thrown.message;
  };
  EXPECT_EQ(message([&] { engine.embed(""); }), "empty text: there is nothing to embed");
  EXPECT_EQ(message([&] { engine.embed("tale\xff"); }), message([&] { engine.tokenize("tale\xff"); }));
  EXPECT_EQ(message([&] { engine.embed_tokens({}); }), "no tokens: expected at least one");
  EXPECT_EQ(message([&] {
              engine.embed_tokens(std::vector<int32_t>{1, 4096});
            }),
            "token id 4096 is outside the vocabulary of 4096");
  EXPECT_EQ(message([&] { engine.embed("a", {.batch_tokens = 0}); }), "batch_tokens: expected at least 1, found 0");
  EXPECT_EQ(message([&] { engine.embed("a", {.pooling = static_cast<Pooling>(3)}); }),
            "pooling: expected kMean (0), kLast (1) or kModel (2), found 3");
}

// Qwen3-Embedding's files: a text ends with EOS, whose hidden state stands for it.
TEST(Embedding, IsWhatTheModelsFileSays) {
  const auto info_and_embedding = [](uint32_t pooling_type, bool add_eos) {
    const test::TinyModelFile file({.metadata = [&](gguf::Writer &writer) {
      if (pooling_type > 0) writer.set_uint32("qwen3.pooling_type", pooling_type);
      if (add_eos) writer.set_bool("tokenizer.ggml.add_eos_token", true);
    }});
    const Engine engine = Engine::load({.model = file.path(), .backend = "cpu"});
    std::vector<int32_t> tokens = engine.tokenize("the wolf", false);
    const std::vector<int32_t> to_embed = engine.tokenize_to_embed("the wolf");
    EXPECT_EQ(to_embed.size(), tokens.size() + add_eos);
    EXPECT_EQ(engine.embed("the wolf"), engine.embed_tokens(to_embed, {.pooling = engine.model().pooling}));
    return std::pair(engine.model().pooling, engine.embed("the wolf"));
  };
  const auto plain = info_and_embedding(0, false), mean = info_and_embedding(1, false),
             last = info_and_embedding(3, false), whole = info_and_embedding(3, true);
  EXPECT_EQ(plain.first, Pooling::kMean);
  EXPECT_EQ(mean, plain);
  EXPECT_EQ(last.first, Pooling::kLast);
  EXPECT_NE(last.second, mean.second);
  EXPECT_NE(whole.second, last.second);
}

constexpr const char *kAllFreed = "; left behind: 0 weights, 0 sessions; rules broken: 0";

TEST(Embedding, IsTheSameWhereABackendGivesNoNumbers) {
  const std::vector<float> expected = Engine::load(options_for("cpu")).embed(kTale);
  for (const char *status : {"spoilt", "least"}) {
    EngineOptions options = options_for("failing");
    options.backend_strict = false;
    options.backend_options = {{"fail.at", "1"}, {"fail.status", status}, {"fail.function", "forward_wait"}};
    const Engine engine = Engine::load(options);
    EXPECT_EQ(engine.embed(kTale), expected) << status;
    EXPECT_EQ(engine.backend().failed_over, "failing: NaN or infinity among what it computed, expected numbers");
  }
}

// At every call of a function, until there is none left that could fail; and the device is left empty.
TEST(Embedding, IsTheSameWhereverABackendFails) {
  constexpr int kMany = 20;
  const EmbeddingOptions in_pieces = {.batch_tokens = 16};
  const auto expected = Engine::load(options_for("cpu")).embed(kTale, in_pieces);
  for (const std::string function : {"session_create", "forward_submit", "forward_wait"}) {
    int n_failed = 0, n_closed = 0;
    for (bool failed = true; failed && n_failed < kMany; n_failed += failed) {
      EngineOptions options = options_for("failing");
      options.backend_strict = false;
      options.backend_options = {
          {"fail.at", std::to_string(n_failed + 1)}, {"fail.status", "lost"}, {"fail.function", function}};
      options.log = [&](LogLevel, std::string_view line) {
        if (line.find(": closed after ") == line.npos) return;
        ++n_closed;
        EXPECT_TRUE(line.ends_with(kAllFreed)) << line;
      };
      const Engine engine = Engine::load(options);
      EXPECT_EQ(engine.embed(kTale, in_pieces), expected) << function << " " << n_failed;
      failed = engine.backend().name == "cpu";
    }
    EXPECT_GE(n_failed, 2) << function;
    EXPECT_LT(n_failed, kMany) << function;
    EXPECT_EQ(n_closed, n_failed + 1);
  }
}

TEST(Embedding, OfAStrictlyChosenBackendFailsWithIt) {
  EngineOptions options = options_for("failing");
  options.backend_options = {{"fail.at", "1"}, {"fail.status", "lost"}, {"fail.function", "forward_wait"}};
  const Engine engine = Engine::load(options);
  const Thrown thrown = thrown_by([&] { engine.embed(kTale); });
  EXPECT_EQ(thrown.kind, ErrorKind::kBackend);
  EXPECT_EQ(thrown.message,
            "failing: injected into forward_wait (device lost); the CPU may not take over from a strictly chosen "
            "backend");
}

}  // namespace
}  // namespace bonsai
