// Guessing changes how long a text takes and nothing else: not a byte of it, not how it ends, not what comes after.
#include <gtest/gtest.h>

#include <map>
#include <stop_token>

#include "tests/host/engine/seedling.h"
#include "tests/model/tiny_model.h"

namespace bonsai {
namespace {

std::string seedling_path(const std::string &type) {
  return BONSAI_BINARY_DIR "/share/bonsai/seedling-" + type + ".gguf";
}

EngineOptions engine_options(const std::string &type, uint32_t context = 0) {
  EngineOptions options;
  options.model = seedling_path(type);
  options.backend = "cpu";
  options.threads = 1;
  options.context = context;
  return options;
}

using Draft = std::shared_ptr<const Engine>;
Draft draft_of(const std::string &type, uint32_t context = 0) {
  static std::map<std::pair<std::string, uint32_t>, Draft> loaded;
  Draft &draft = loaded[{type, context}];
  if (!draft) draft = std::make_shared<const Engine>(Engine::load(engine_options(type, context)));
  return draft;
}

const std::vector<std::string> kPrompts = {
    "Once upon a time",
    "The King said to the King said to the King said",
    "a b c a b c a b c a b c",
    "\"I have no bread,\" said the woman. \"I have no",
    "one two three four five six one two three four five six one two",
    "A",
};

// Everything that a person or a program sees of a generation, but for the time.
struct Seen {
  std::string text, streamed;
  std::vector<int32_t> tokens;
  FinishReason finish{};
  uint32_t prompt_tokens = 0, decode_steps = 0, constrained_tokens = 0;
  std::vector<float> logits;         // behind the end
  std::vector<int32_t> next_tokens;  // of a second generation
  bool operator==(const Seen &) const = default;
};
void PrintTo(const Seen &seen, std::ostream *out) {
  *out << seen.text << " [" << finish_reason_name(seen.finish) << ", " << seen.tokens.size() << " tokens, "
       << seen.prompt_tokens << " of the prompt, " << seen.decode_steps << " steps]";
}

struct Sums {
  uint32_t proposed = 0, accepted = 0;
} sums;  // of the test at hand

Seen see(const Engine &engine, const std::string &prompt, const GenerateOptions &options, size_t cancel_after = 0) {
  Session session = engine.new_session();
  session.append(prompt);
  Seen seen;
  const Generation generation = session.generate(options, [&](std::string_view text) {
    seen.streamed += text;
    return cancel_after == 0 || seen.streamed.size() < cancel_after;
  });
  seen.text = generation.text;
  seen.tokens = generation.tokens;
  seen.finish = generation.finish;
  seen.prompt_tokens = generation.stats.prompt_tokens;
  seen.decode_steps = generation.stats.decode_steps;
  seen.constrained_tokens = generation.stats.constrained_tokens;
  seen.logits = session.logits();
  if (session.room() > 0) seen.next_tokens = session.generate(options).tokens;
  EXPECT_LE(generation.stats.accepted_tokens, generation.stats.proposed_tokens);
  EXPECT_LE(generation.stats.decode_passes, generation.stats.decode_steps);
  sums.proposed += generation.stats.proposed_tokens;
  sums.accepted += generation.stats.accepted_tokens;
  return seen;
}

// The ways to guess: the name of a seedling, or nothing, and whether to look up.
struct Guesses {
  std::string draft;
  bool lookup;
};
const std::vector<Guesses> kWays = {{"", true}, {"q1_0", false}, {"tq2_0", false}, {"tq2_0", true}};

class Speculation : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { sums = {}; }

  // For every prompt and way to guess.
  void expect_the_same(const GenerateOptions &options, uint32_t context = 0, size_t cancel_after = 0) const {
    const Engine engine = Engine::load(engine_options(GetParam(), context));
    for (const std::string &prompt : kPrompts) {
      const Seen expected = see(engine, prompt, options, cancel_after);
      for (const auto &[draft, lookup] : kWays) {
        SCOPED_TRACE(prompt + ", draft " + draft + (lookup ? ", lookup" : ""));
        GenerateOptions guessing = options;
        guessing.lookup = lookup;
        if (!draft.empty()) guessing.draft = draft_of(draft, context);
        EXPECT_EQ(see(engine, prompt, guessing, cancel_after), expected);
      }
    }
  }
};

TEST_P(Speculation, GreedyTextIsTheSame) {
  expect_the_same(greedy(120));
  EXPECT_GT(sums.accepted, 0u);
}

TEST_P(Speculation, SampledTextIsTheSameForEverySeed) {
  for (const uint64_t seed : {1, 2, 3}) {
    GenerateOptions options;
    options.max_tokens = 60;
    options.sampling.seed = seed;
    if (seed == 3) options.sampling.top_k = 0, options.sampling.temperature = 1.2f;
    expect_the_same(options);
  }
  EXPECT_GT(sums.accepted, 0u);
}

TEST_P(Speculation, PenaltiesAndBiasesSeeTheSameText) {
  GenerateOptions options;
  options.max_tokens = 60;
  options.sampling.seed = 5;
  options.sampling.repetition_penalty = 1.2f;
  options.sampling.frequency_penalty = 0.3f;
  options.sampling.penalty_window = 24;
  options.sampling.logit_bias = {{7, 2.0f}, {300, -1.0f}};
  options.ignore_eos = true;
  expect_the_same(options);
  options.sampling.temperature = 0;
  options.sampling.penalty_window = -1;
  expect_the_same(options);
  EXPECT_GT(sums.proposed, 0u);
}

TEST_P(Speculation, StopStringsEndItAtTheSamePlace) {
  for (const char *stop : {"said", "the", "e", "King", " a b"}) {
    GenerateOptions options = greedy(80);
    options.stop = {stop, "never there"};
    expect_the_same(options);
  }
}

TEST_P(Speculation, EveryLengthIsTheSame) {
  for (uint32_t n = 1; n <= 9; ++n) expect_the_same(greedy(n));
}

TEST_P(Speculation, SmallContextsFillUpAtTheSamePlace) {
  for (const uint32_t context : {24u, 25u, 32u, 33u, 40u}) expect_the_same(greedy(100), context);
}

TEST_P(Speculation, TheModelsOwnEndIsTheSame) {
  for (const float bias : {4.0f, 6.0f, 8.0f}) {
    GenerateOptions options;
    options.max_tokens = 60;
    options.sampling.seed = 6;
    options.sampling.logit_bias = {{4093, bias}};
    expect_the_same(options);
  }
}

TEST_P(Speculation, TheCallbackEndsItAtTheSamePlace) {
  for (const size_t n_bytes : {1u, 20u, 50u, 90u}) expect_the_same(greedy(60), 0, n_bytes);
}

TEST_P(Speculation, GrammarsAndSchemasAreFollowedTheSameWay) {
  GenerateOptions options = greedy(80);
  options.grammar = R"(root ::= ("the King " | "a cat " | "the bread ")+ ".")";
  expect_the_same(options);
  options.grammar.clear();
  options.json_schema = R"({"type": "array", "items": {"type": "integer"}, "minItems": 5})";
  options.sampling.temperature = 1;
  options.sampling.seed = 9;
  expect_the_same(options);
  EXPECT_GT(sums.proposed, 0u);
}

// A draft that is the model itself, with the same random numbers: it is always right.
TEST_P(Speculation, AModelAgreesWithItself) {
  const Engine engine = Engine::load(engine_options(GetParam()));
  for (const float temperature : {0.0f, 0.7f, 1.5f}) {
    GenerateOptions options;
    options.max_tokens = 100;
    options.sampling.temperature = temperature;
    options.sampling.repetition_penalty = 1.1f;
    options.sampling.seed = 21;
    options.draft = draft_of(GetParam());
    const GenerationStats stats = engine.generate("Once upon a time", options).stats;
    EXPECT_GT(stats.proposed_tokens, 0u);
    EXPECT_EQ(stats.accepted_tokens, stats.proposed_tokens);
    EXPECT_GT(stats.seconds_one_by_one, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Seedlings, Speculation, testing::Values("q1_0", "tq2_0"));

TEST(SpeculationDraft, GoesOnWithoutADraftWhoseContextIsFull) {
  const Engine engine = Engine::load(engine_options("q1_0"));
  GenerateOptions options = greedy(100);
  const Seen expected = see(engine, "Once upon a time", options);
  for (const uint32_t context : {4u, 5u, 6u, 7u, 30u}) {
    options.draft = draft_of("tq2_0", context);
    EXPECT_EQ(see(engine, "Once upon a time", options), expected) << context;
  }
}

TEST(SpeculationDraft, OneDraftServesManySessions) {
  const Engine engine = Engine::load(engine_options("q1_0"));
  const Draft draft = draft_of("tq2_0");
  Session first = engine.new_session(), second = engine.new_session();
  first.append("Once upon a time");
  second.append("The King said");
  GenerateOptions options = greedy(20);
  options.draft = draft;
  std::string texts[2], expected[2];
  for (int turn = 0; turn < 3; ++turn) {
    texts[0] += first.generate(options).text;
    texts[1] += second.generate(options).text;
    first.truncate(first.length() - 3);
  }
  options.draft = nullptr;
  Session third = engine.new_session(), fourth = engine.new_session();
  third.append("Once upon a time");
  fourth.append("The King said");
  for (int turn = 0; turn < 3; ++turn) {
    expected[0] += third.generate(options).text;
    expected[1] += fourth.generate(options).text;
    third.truncate(third.length() - 3);
  }
  EXPECT_EQ(texts[0], expected[0]);
  EXPECT_EQ(texts[1], expected[1]);
}

// One line names the first difference; the session can go on without the draft.
TEST(SpeculationDraft, AnotherVocabularyIsRefused) {
  const auto refusal = [](const test::TinyModel &model, const test::TinyModel &draft) {
    EngineOptions options, draft_options;
    const test::TinyModelFile file(model), draft_file(draft);
    options.model = file.path();
    draft_options.model = draft_file.path();
    Session session = Engine::load(options).new_session();
    session.append("the");
    GenerateOptions guessing = greedy(4);
    guessing.draft = std::make_shared<const Engine>(Engine::load(draft_options));
    const Thrown thrown = thrown_by([&] { session.generate(guessing); });
    EXPECT_EQ(session.generate(greedy(4)).stats.decode_steps, 3u);
    return thrown;
  };
  const Thrown sizes = refusal({}, {.vocab = 300});
  EXPECT_EQ(sizes.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(sizes.message, "draft model: expected the model's vocabulary, found one of 300 tokens instead of 272");
  // The tiny model's tokens behind those of single bytes, under other names.
  const auto rename = [](gguf::Writer &writer) {
    std::vector<std::string> tokens;
    for (int byte = 0, unprintable = 0x100; byte < 256; ++byte) {
      const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      const int code = printable ? byte : unprintable++;
      if (code < 0x80)
        tokens.push_back({static_cast<char>(code)});
      else
        tokens.push_back({static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))});
    }
    while (tokens.size() < test::kTinyTokens) tokens.push_back("other" + std::to_string(tokens.size()));
    writer.set_strings("tokenizer.ggml.tokens", tokens);
    writer.set_strings("tokenizer.ggml.merges", std::vector<std::string>());
  };
  const Thrown words = refusal({}, {.metadata = rename});
  EXPECT_EQ(words.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(words.message,
            "draft model: expected the model's vocabulary, found token 256 to be 'other256' instead of 'th'");
  EXPECT_EQ(refusal({}, {.seed = 2}).message, "nothing was thrown") << "another model of the same vocabulary serves";
}

// At whatever call the device fails, with proposals under way or not, the CPU goes on with the same text.
TEST(SpeculationFailOver, TheTextIsTheSameAtAnyCall) {
  const std::string prompt = kPrompts[1];
  for (const bool draft : {false, true}) {
    GenerateOptions options = greedy(16);
    const Seen expected = see(Engine::load(engine_options("q1_0")), prompt, options);
    options.lookup = !draft;
    if (draft) options.draft = draft_of("tq2_0");
    bool failed = true;
    for (size_t at = 1; failed; ++at) {
      SCOPED_TRACE("failure at call " + std::to_string(at));
      EngineOptions failing = engine_options("q1_0");
      failing.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so";
      failing.backend_options = {
          {"fail.at", std::to_string(at)}, {"fail.status", "internal"}, {"fail.function", "all"}};
      const Engine engine = Engine::load(failing);
      Session session = engine.new_session();
      session.append(prompt);
      EXPECT_EQ(session.generate(options).text, expected.text);
      failed = engine.backend().name == "cpu";
      ASSERT_LT(at, 200u);
    }
  }
}

TEST(SpeculationDraft, CancellingEndsItBeforeTheFirstToken) {
  const Engine engine = Engine::load(engine_options("q1_0"));
  std::stop_source stop;
  stop.request_stop();
  GenerateOptions options = greedy(20);
  options.draft = draft_of("tq2_0");
  options.lookup = true;
  options.cancel = stop.get_token();
  const Generation generation = engine.generate("Once upon a time", options);
  EXPECT_EQ(generation.finish, FinishReason::kCancelled);
  EXPECT_TRUE(generation.tokens.empty());
}

}  // namespace
}  // namespace bonsai
