// The device picks out what the sampler needs, and nobody can tell from the text: for every kind of setting the tokens,
// the log-probabilities and the session's own logits are those of a device that hands out whole rows.
#include <bonsai/batch_engine.h>
#include <gtest/gtest.h>

#include <iterator>
#include <limits>

#include "tests/host/engine/failing.h"

namespace bonsai {
namespace {

constexpr uint32_t kTokens = 40;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
const char *const kPrompts[] = {"Once upon a time", "The king said to the king and the king said to the"};

// A backend of tests/host/failing_backend, none of whose calls fails.
struct Backend {
  explicit Backend(const std::string &name) : options(failing_options({.backend = name}, journal)) {
    options.backend_strict = true;
    options.context = 128;
  }
  Engine load() const { return Engine::load(options); }
  const Outputs &outputs() const { return journal.outputs(); }

  Journal journal;
  EngineOptions options;
};

enum class Asks { kArgmax, kTop, kWhole };

struct Setting {
  std::string name;
  GenerateOptions options;
  Asks asks = Asks::kTop;    // of a device that can do all
  bool is_adjusted = false;  // bias, penalties or a grammar
};
void PrintTo(const Setting &setting, std::ostream *out) { *out << setting.name; }

GenerateOptions preset(std::string_view name) {
  GenerateOptions options;
  options.max_tokens = kTokens;
  options.sampling = *sampling_preset(name);
  options.sampling.seed = 21;
  return options;
}

template <class Change>
GenerateOptions preset(std::string_view name, Change change) {
  GenerateOptions options = preset(name);
  change(options);
  return options;
}

const char *const kGrammar = "root ::= ([a-z ] | \", \")+ \".\"";

void add_penalties(GenerateOptions &options) {
  options.sampling.repetition_penalty = 1.2f;
  options.sampling.presence_penalty = 0.3f;
  options.sampling.frequency_penalty = 0.1f;
}
void add_biases(GenerateOptions &options) { options.sampling.logit_bias = {{258, 1.5f}, {518, -kInfinity}}; }
void add_grammar(GenerateOptions &options) { options.grammar = kGrammar; }

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const std::string name : {"greedy", "balanced", "creative", "code"}) {
    const Asks asks = name == "greedy" ? Asks::kArgmax : Asks::kTop;
    all.push_back({name, preset(name), asks});
    all.push_back({name + "_penalties", preset(name, add_penalties), asks, true});
    all.push_back({name + "_biases", preset(name, add_biases), asks, true});
    all.push_back({name + "_grammar", preset(name, add_grammar), asks, true});
    all.push_back({name + "_logprobs", preset(name, [](auto &options) { options.logprobs = 4; }), Asks::kWhole});
    all.push_back({name + "_ignore_eos", preset(name, [](auto &options) { options.ignore_eos = true; }), asks, true});
  }
  const auto add = [&](const std::string &name, Asks asks, auto change, bool is_adjusted = false) {
    all.push_back({name, preset("balanced", change), asks, is_adjusted});
  };
  add(
      "everything", Asks::kTop,
      [](auto &options) {
        add_penalties(options);
        add_grammar(options);
        options.ignore_eos = true;
        options.sampling.min_p = 0.05f;
        options.sampling.penalty_window = -1;
      },
      true);
  add("bias_and_penalty_of_one_token", Asks::kWhole, [](auto &options) {
    add_penalties(options);
    options.sampling.logit_bias = {{4093, 0.1f}};  // BOS, which begins every text
    options.sampling.penalty_window = -1;
  });
  add("one_of_one", Asks::kArgmax, [](auto &options) { options.sampling.top_k = 1; });
  add("most", Asks::kTop, [](auto &options) { options.sampling.top_k = 1024; });
  add("more_than_a_device_selects", Asks::kWhole, [](auto &options) { options.sampling.top_k = 1025; });
  add("no_top_k", Asks::kWhole, [](auto &options) { options.sampling.top_k = 0; });
  add("hot", Asks::kTop, [](auto &options) { options.sampling.temperature = 8; });
  return all;
}

// All that can be told from outside.
struct Seen {
  std::vector<int32_t> tokens, next_tokens;
  std::string text;
  FinishReason finish{};
  std::vector<float> logits;
  std::vector<double> logprobs;
  uint32_t constrained_tokens = 0, prompt_tokens = 0, decode_steps = 0;
  bool operator==(const Seen &) const = default;
};

void add_generation(Seen &seen, const Generation &generation) {
  seen.tokens = generation.tokens;
  seen.text = generation.text;
  seen.finish = generation.finish;
  for (const TokenLogProbs &token : generation.logprobs) {
    seen.logprobs.push_back(token.chosen.logprob);
    for (const LogProb &top : token.top) seen.logprobs.push_back(top.logprob);
  }
  seen.constrained_tokens = generation.stats.constrained_tokens;
  seen.prompt_tokens = generation.stats.prompt_tokens;
  seen.decode_steps = generation.stats.decode_steps;
}

Seen see(const Engine &engine, const char *prompt, const GenerateOptions &options) {
  Session session = engine.new_session();
  session.append(prompt);
  Seen seen;
  add_generation(seen, session.generate(options));
  seen.next_tokens = session.generate(options).tokens;
  seen.logits = session.logits();
  return seen;
}

class Selecting : public testing::TestWithParam<Setting> {
 protected:
  // For each prompt, in a session.
  std::vector<Seen> on(const Backend &backend) const {
    const Engine engine = backend.load();
    std::vector<Seen> all;
    for (const char *prompt : kPrompts) all.push_back(see(engine, prompt, GetParam().options));
    return all;
  }
};

TEST_P(Selecting, IsNotSeenInTheText) {
  const Backend whole("whole_rows");
  const std::vector<Seen> expected = on(whole);
  EXPECT_EQ(whole.outputs().argmax + whole.outputs().top, 0u);
  for (const char *name : {"failing", "failing_layers", "unadjusted", "elsewhere"}) {
    SCOPED_TRACE(name);
    const Backend backend(name);
    EXPECT_EQ(on(backend), expected);
    const Outputs outputs = backend.outputs();
    const bool selects =
        GetParam().asks != Asks::kWhole && !(GetParam().is_adjusted && name == std::string("unadjusted"));
    EXPECT_EQ(outputs.argmax > 0, selects && GetParam().asks == Asks::kArgmax);
    EXPECT_EQ(outputs.top > 0, selects && GetParam().asks == Asks::kTop);
    // What remains are the first rows, and the last logits.
    EXPECT_LE(outputs.whole, selects ? 3 * std::size(kPrompts) : outputs.whole);
  }
}

TEST_P(Selecting, IsNotSeenInTextsOfABatch) {
  std::vector<std::string> prompts(std::begin(kPrompts), std::end(kPrompts));
  const auto generate_on = [&](const Backend &backend) {
    BatchEngine engine(backend.load(), {.max_sequences = 2, .kv_tokens = 256});
    std::vector<Seen> all;
    for (const Generation &generation : engine.generate(prompts, GetParam().options))
      add_generation(all.emplace_back(), generation);
    return all;
  };
  const Backend whole("whole_rows"), selecting("failing");
  EXPECT_EQ(generate_on(selecting), generate_on(whole));
  EXPECT_EQ(whole.outputs().argmax + whole.outputs().top, 0u);
  EXPECT_EQ(selecting.outputs().argmax > 0, GetParam().asks == Asks::kArgmax);
  EXPECT_EQ(selecting.outputs().top > 0, GetParam().asks == Asks::kTop);
}

// What passes verify is selected, too, and so is what a draft model proposes.
TEST_P(Selecting, IsNotSeenWhereTokensAreGuessed) {
  const Backend whole("whole_rows"), selecting("failing"), drafting("failing");
  {
    const auto draft = std::make_shared<const Engine>(drafting.load());
    const Engine plain = whole.load(), engine = selecting.load();
    for (const char *prompt : kPrompts) {
      GenerateOptions guessing = GetParam().options;
      guessing.lookup = true;
      guessing.draft = draft;
      EXPECT_EQ(see(engine, prompt, guessing), see(plain, prompt, GetParam().options));
    }
  }
  EXPECT_EQ(drafting.outputs().argmax + drafting.outputs().top > 0,
            GetParam().asks != Asks::kWhole || GetParam().options.logprobs > 0);
}

// A backend that the host composes a model on gives whole rows; log-probabilities, which change no choice, ask for
// them.
TEST_P(Selecting, TheComposedBackendSaysTheSameWithLogProbs) {
  EngineOptions options = seedling_options();
  options.backend = BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_template.so";
  options.backend_strict = true;
  options.context = 64;
  const Engine engine = Engine::load(options);
  GenerateOptions with_logprobs = GetParam().options;
  with_logprobs.max_tokens = 12;
  const std::vector<int32_t> tokens = engine.generate(kPrompts[0], with_logprobs).tokens;
  with_logprobs.logprobs = 1;
  EXPECT_EQ(engine.generate(kPrompts[0], with_logprobs).tokens, tokens);
}

INSTANTIATE_TEST_SUITE_P(Settings, Selecting, testing::ValuesIn(settings()),
                         [](const auto &info) { return info.param.name; });

// After text that ended by itself nothing is pending, but what is at hand is a selection.
TEST(SelectingKeeps, TheLogitsBehindATextThatEnded) {
  const Backend backend("failing");
  const Engine engine = backend.load();
  GenerateOptions options = preset("greedy");
  options.grammar = "root ::= \" there was a \" (\"king\" | \"fox\")";
  Session session = engine.new_session(), fresh = engine.new_session();
  session.append(kPrompts[0]);
  EXPECT_EQ(session.generate(options).finish, FinishReason::kEndOfText);
  fresh.append_tokens(session.tokens());
  EXPECT_EQ(session.generate(preset("greedy")).tokens, fresh.generate(preset("greedy")).tokens);
  EXPECT_EQ(session.logits(), fresh.logits());
}

}  // namespace
}  // namespace bonsai
