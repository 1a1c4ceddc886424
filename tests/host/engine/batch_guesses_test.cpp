// Requests that guess in shared steps, as much as a test wants and not as much as pays: each says what it says alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "host/engine/batch_state.h"
#include "tests/host/engine/seedling.h"

namespace bonsai::host {
namespace {

const std::vector<std::string> &prompts() {
  static const std::vector<std::string> all = {"Once upon a time",
                                               "the King said to the King said to the King said",
                                               "a b c a b c a b c a b c a b c a b c a b c a b c a b c",
                                               "a b c a b c a b c a b c a b c a b c a b c a b c a b c d",
                                               "one two three four five six one two three four five six one two",
                                               "\"I have no bread,\" said the woman. \"I have no"};
  return all;
}

EngineOptions options_for(const std::string &backend) {
  EngineOptions options = seedling_options();
  options.backend = backend;
  options.backend_strict = true;
  options.threads = backend == "cpu" ? 1 : 0;
  options.context = 192;
  return options;
}

// Any number for anybody: mostly what fits, now and then nothing.
BatchState::ChooseLengths at_random(uint32_t seed) {
  return [random = std::mt19937(seed)](std::span<const TextChance> texts, uint32_t most, const PassCosts &) mutable {
    std::vector<uint32_t> lengths;
    for (const TextChance &text : texts) {
      lengths.push_back(static_cast<uint32_t>(random() % (std::min(text.most, most) + 1)));
      most -= lengths.back();
    }
    return lengths;
  };
}

// Every guess that a pass has verified and the text goes on with saves a pass, and no other does. (The last token of a
// text may have been guessed, too, where anything but a number ends it: that one saves none.)
void expect_passes_saved(const Generation &generation) {
  if (generation.finish != FinishReason::kLength && generation.finish != FinishReason::kContextFull) return;
  const GenerationStats &stats = generation.stats;
  EXPECT_EQ(stats.decode_steps - stats.decode_passes, stats.accepted_tokens);
}

// Many wishes, each of which is one way to choose tokens and to end.
struct Wish {
  size_t prompt = 0;
  size_t way = 0;
  auto operator<=>(const Wish &) const = default;
};

std::vector<GenerateOptions> ways(uint32_t most_tokens) {
  std::vector<GenerateOptions> all(7, greedy(most_tokens));
  all[1].sampling = SamplingOptions();
  all[1].sampling.seed = 4;
  all[2].sampling.temperature = 0.3f;
  all[2].sampling.seed = 5;
  all[3].sampling.repetition_penalty = 1.2f;
  all[3].sampling.penalty_window = 20;
  all[4].stop = {"the", "b c a"};
  all[5].grammar = R"(root ::= ("the King " | "a cat " | "the bread ")+ ".")";
  all[6].logprobs = 2;
  all[6].ignore_eos = true;
  all[6].max_tokens = 1000;  // up to the end of the context
  return all;
}

struct Company {
  const char *name, *backend;
  BatchOptions options;
  uint32_t n_requests = 60, most_tokens = 60;
};

class Guessing : public testing::TestWithParam<Company> {};

// What comes of each of them.
std::vector<std::future<Generation>> submit(BatchState &batch, std::vector<BatchState::Order> orders) {
  std::vector<std::future<Generation>> results;
  for (BatchState::Order &order : orders) {
    const auto result = std::make_shared<std::promise<Generation>>();
    results.push_back(result->get_future());
    order.done = [result](Generation generation, const std::exception_ptr &error) {
      error ? result->set_exception(error) : result->set_value(std::move(generation));
    };
  }
  batch.submit(std::move(orders));
  return results;
}

TEST_P(Guessing, EveryTextIsThatOfTheRequestAlone) {
  const auto &[name, backend, options, n_requests, most_tokens] = GetParam();
  const Engine engine = Engine::load(options_for(backend));
  const std::vector<GenerateOptions> all_ways = ways(most_tokens);
  std::map<Wish, Generation> alone;
  std::mt19937 random(11);
  BatchState batch(EngineState::load(options_for(backend)), options, at_random(3));
  std::vector<Wish> wishes;
  std::vector<BatchState::Order> orders;
  for (uint32_t i = 0; i < n_requests; ++i) {
    const Wish &wish = wishes.emplace_back(Wish{random() % prompts().size(), random() % all_ways.size()});
    GenerateOptions guessing = all_ways[wish.way];
    guessing.lookup = true;
    orders.push_back({batch.engine().encode(prompts()[wish.prompt], true), guessing, {}});
    if (!alone.contains(wish)) alone[wish] = engine.generate(prompts()[wish.prompt], all_ways[wish.way]);
  }
  // All at once: who is in whose company, and whether one has to make place, is then no matter of time.
  std::vector<std::future<Generation>> results = submit(batch, std::move(orders));
  uint32_t n_proposed = 0, n_accepted = 0;
  for (size_t i = 0; i < wishes.size(); ++i) {
    const Wish &wish = wishes[i];
    SCOPED_TRACE(prompts()[wish.prompt] + ", way " + std::to_string(wish.way));
    const Generation found = results[i].get();
    const Generation &expected = alone.at(wish);
    EXPECT_EQ(found.text, expected.text);
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.finish == FinishReason::kContextFull, expected.finish == FinishReason::kContextFull);
    EXPECT_EQ(found.logprobs.size(), expected.logprobs.size());
    EXPECT_EQ(found.stats.decode_steps, expected.stats.decode_steps);
    EXPECT_EQ(found.stats.constrained_tokens, expected.stats.constrained_tokens);
    EXPECT_LE(found.stats.decode_passes, found.stats.decode_steps);
    expect_passes_saved(found);
    n_proposed += found.stats.proposed_tokens;
    n_accepted += found.stats.accepted_tokens;
  }
  // Of all kinds, and often.
  EXPECT_GT(n_accepted, 2 * n_requests);
  EXPECT_GT(n_proposed, n_accepted + n_requests / 2);
  const BatchStats stats = batch.stats();
  EXPECT_EQ(stats.preemptions > 0, options.kv_tokens == 192);
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_kept, stats.kv_blocks);
}

INSTANTIATE_TEST_SUITE_P(
    Batch, Guessing,
    testing::Values(Company{"OfMany", "cpu", {.max_sequences = 12}}, Company{"OfOne", "cpu", {.max_sequences = 1}},
                    Company{"OfFew", "cpu", {.max_sequences = 3, .batch_tokens = 7}},
                    Company{"WithHardlyAnyCache", "cpu", {.max_sequences = 5, .batch_tokens = 24, .kv_tokens = 192}},
                    Company{"WithoutSharing", "cpu", {.max_sequences = 4, .kv_tokens = 768, .share_prefixes = false}},
                    Company{"ComposedByTheHost",
                            BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_template.so",
                            {.max_sequences = 3, .batch_tokens = 16, .kv_tokens = 576},
                            6,
                            14},
                    Company{"LayerByLayer",
                            BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing_layers.so",
                            {.max_sequences = 4, .batch_tokens = 16, .kv_tokens = 192},
                            24,
                            30}),
    [](const auto &info) { return info.param.name; });

// With guesses under way or not, the CPU goes on with the same texts.
TEST(BatchGuesses, SurviveABackendThatFailsAnywhere) {
  const Engine undisturbed = Engine::load(options_for("cpu"));
  std::vector<std::string> expected;
  for (const std::string &prompt : prompts()) expected.push_back(undisturbed.generate(prompt, greedy(12)).text);
  bool failed = true;
  for (size_t at = 1; failed; ++at) {
    SCOPED_TRACE("failure at call " + std::to_string(at));
    EngineOptions options = options_for(BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so");
    options.backend_strict = false;
    options.threads = 1;
    options.backend_options = {
        {"fail.at", std::to_string(at)}, {"fail.status", "internal"}, {"fail.function", "forward_wait"}};
    const auto engine = EngineState::load(options);
    BatchState batch(engine, {.max_sequences = 4, .batch_tokens = 32, .kv_tokens = 768}, at_random(7));
    GenerateOptions guessing = greedy(12);
    guessing.lookup = true;
    std::vector<BatchState::Order> orders;
    for (const std::string &prompt : prompts()) orders.push_back({engine->encode(prompt, true), guessing, {}});
    auto futures = submit(batch, std::move(orders));
    for (size_t i = 0; i < futures.size(); ++i) {
      const Generation found = futures[i].get();
      EXPECT_EQ(found.text, expected[i]);
      expect_passes_saved(found);
    }
    failed = engine->placement()->backend().name() == "cpu";
    ASSERT_LT(at, 200u);
  }
}

TEST(BatchGuesses, AreOnlyMadeForThoseThatWantThem) {
  const auto engine = EngineState::load(options_for("cpu"));
  std::vector<uint32_t> allowed;
  BatchState batch(engine, {.max_sequences = 2},
                   [&](std::span<const TextChance> texts, uint32_t most, const PassCosts &costs) {
                     EXPECT_LE(texts.size() + most, PassCosts::kMostTokens);
                     for (const TextChance &text : texts) allowed.push_back(text.most);
                     return choose_shared_lengths(texts, most, costs);
                   });
  const auto generate = [&](bool lookup) {
    GenerateOptions options = greedy(20);
    options.lookup = lookup;
    std::vector<BatchState::Order> orders;
    orders.push_back({engine->encode(prompts()[2], true), options, {}});
    submit(batch, std::move(orders)).front().get();
  };
  generate(false);
  ASSERT_FALSE(allowed.empty());
  EXPECT_EQ(*std::max_element(allowed.begin(), allowed.end()), 0u);
  allowed.clear();
  generate(true);
  ASSERT_FALSE(allowed.empty());
  EXPECT_GT(*std::max_element(allowed.begin(), allowed.end()), 0u);
}

}  // namespace
}  // namespace bonsai::host
