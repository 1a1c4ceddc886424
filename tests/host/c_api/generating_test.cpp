// Generating through the C API: every option has its effect, and every end is told.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <thread>

#include "tests/host/c_api/handles.h"
#include "tests/model/tiny_model.h"

namespace bonsai::c {
namespace {

// Its message, of a generation that must be refused and leave NULL in the place of one.
std::string refusal(const EngineHandle &engine, const bonsai_generate_options &options) {
  const GenerationHandle other = generate(engine, kPrompt, greedily(1));
  const bonsai_generation *generation = other.get();
  const Report report = report_of([&](auto failure) {
    return bonsai_engine_generate(engine.get(), kPrompt, BONSAI_TO_NUL, &options, nullptr, nullptr, &generation,
                                  failure);
  });
  EXPECT_EQ(report.outcome, uint32_t{BONSAI_BAD_ARGUMENT});
  EXPECT_EQ(generation, nullptr);
  return report.message;
}

TEST(CGenerate, PresetsAreThoseOfTheCxxApi) {
  for (const char *name : {"greedy", "balanced", "creative", "code"}) {
    const SamplingOptions expected = *sampling_preset(name);
    const bonsai_generate_options options = preset(name, 1);
    EXPECT_EQ(options.temperature, expected.temperature) << name;
    EXPECT_EQ(options.top_k, expected.top_k) << name;
    EXPECT_EQ(options.top_p, expected.top_p) << name;
    EXPECT_EQ(options.min_p, expected.min_p) << name;
    EXPECT_EQ(options.repetition_penalty, expected.repetition_penalty) << name;
    EXPECT_EQ(options.presence_penalty, expected.presence_penalty) << name;
    EXPECT_EQ(options.frequency_penalty, expected.frequency_penalty) << name;
    EXPECT_EQ(options.penalty_window, expected.penalty_window) << name;
    EXPECT_EQ(options.has_seed, 0u) << name;
  }
  bonsai_generate_options options = greedily(77);
  EXPECT_EQ(bonsai_generate_options_init(&options, sizeof options, "reckless"), uint32_t{BONSAI_BAD_ARGUMENT});
  EXPECT_EQ(options.max_tokens, 77u);
  EXPECT_EQ(bonsai_generate_options_init(&options, sizeof options, nullptr), uint32_t{BONSAI_SUCCESS});
  EXPECT_EQ(options.temperature, SamplingOptions().temperature);
  EXPECT_EQ(options.max_tokens, GenerateOptions().max_tokens);
}

TEST(CGenerate, AnEnginesOptionsAreWhatItsFileAsksFor) {
  const test::TinyModelFile file(
      {.metadata = [](gguf::Writer &writer) { writer.set_float32("general.sampling.temp", 0.25f); }});
  const EngineHandle engine = load(options_for(file.path().c_str()));
  bonsai_generate_options options{};
  bonsai_failure failure{};
  failure.struct_size = sizeof failure;
  ASSERT_EQ(bonsai_engine_generate_options(engine.get(), &options, sizeof options, &failure), uint32_t{BONSAI_SUCCESS});
  EXPECT_EQ(options.struct_size, sizeof options);
  EXPECT_EQ(options.temperature, 0.25f);
  EXPECT_EQ(options.top_k, SamplingOptions().top_k);
  EXPECT_EQ(options.max_tokens, GenerateOptions().max_tokens);
  EXPECT_EQ(bonsai_engine_generate_options(engine.get(), nullptr, 0, &failure), uint32_t{BONSAI_BAD_ARGUMENT});
  EXPECT_STREQ(failure.message, "options: expected a struct and its size");
  EXPECT_EQ(bonsai_engine_generate_options(nullptr, &options, sizeof options, &failure), uint32_t{BONSAI_BAD_ARGUMENT});
}

// Each field is what sampling.h has under its name: alone it changes the text as it does there.
TEST(CGenerate, FieldsOfSamplingMeanWhatTheyMeanInTheCxxApi) {
  const Engine same = load_seedling();
  const EngineHandle engine = load();
  const auto compare = [&](auto change) {
    bonsai_generate_options options = preset("balanced", 40);
    GenerateOptions expected;
    expected.max_tokens = 40;
    options.has_seed = 1;
    options.seed = 5;
    expected.sampling.seed = 5;
    change(options, expected.sampling);
    EXPECT_EQ(tokens_of(generate(engine, kPrompt, options)), same.generate(kPrompt, expected).tokens);
  };
  compare([](auto &c, auto &cxx) { c.temperature = cxx.temperature = 3; });
  compare([](auto &c, auto &cxx) { c.top_k = cxx.top_k = 2; });
  compare([](auto &c, auto &cxx) { c.top_p = cxx.top_p = 0.2f; });
  compare([](auto &c, auto &cxx) { c.min_p = cxx.min_p = 0.4f; });
  compare([](auto &c, auto &cxx) { c.repetition_penalty = cxx.repetition_penalty = 1.8f; });
  compare([](auto &c, auto &cxx) { c.presence_penalty = cxx.presence_penalty = 4; });
  compare([](auto &c, auto &cxx) { c.frequency_penalty = cxx.frequency_penalty = 4; });
  compare([](auto &c, auto &cxx) {
    c.presence_penalty = cxx.presence_penalty = 4;
    c.penalty_window = cxx.penalty_window = -1;
  });
}

TEST(CGenerate, EqualSeedsGiveEqualTextAndTheSeedIsReported) {
  const EngineHandle engine = load();
  bonsai_generate_options options = preset("creative", 30);
  options.seed = 7;  // has_seed is 0: of no effect
  const GenerationHandle first = generate(engine, kPrompt, options);
  options.has_seed = 1;
  options.seed = first->seed;
  EXPECT_EQ(tokens_of(generate(engine, kPrompt, options)), tokens_of(first));
  options.seed = first->seed + 1;
  const GenerationHandle other = generate(engine, kPrompt, options);
  EXPECT_EQ(other->seed, first->seed + 1);
  EXPECT_NE(tokens_of(other), tokens_of(first));
}

TEST(CGenerate, EndsBeforeAStopString) {
  const char *const stops[] = {"never there", "lived"};
  bonsai_generate_options options = greedily(48);
  options.n_stops = 2;
  options.stops = stops;
  Listener listener;
  const GenerationHandle generation = generate(load(), kPrompt, options, &listener);
  EXPECT_EQ(generation->finish, uint32_t{BONSAI_FINISH_STOP_STRING});
  EXPECT_EQ(text_of(generation), ", in the middle of the forest, there ");
  EXPECT_EQ(listener.text, text_of(generation));
}

// Biased towards it, the model ends its text at once; told to ignore the end, it cannot choose it.
TEST(CGenerate, BiasLeadsToTheEndUnlessItIsIgnored) {
  const EngineHandle engine = load();
  const int32_t tokens[] = {4093, 2258};
  const float adds[] = {1000, -INFINITY};
  bonsai_generate_options options = greedily(5);
  options.n_logit_bias = 2;
  options.bias_tokens = tokens;
  options.bias_adds = adds;
  const GenerationHandle ended = generate(engine, kPrompt, options);
  EXPECT_EQ(ended->finish, uint32_t{BONSAI_FINISH_END_OF_TEXT});
  EXPECT_EQ(ended->n_tokens, 0u);
  EXPECT_EQ(text_of(ended), "");
  options.ignore_eos = 1;
  EXPECT_EQ(tokens_of(generate(engine, kPrompt, options)), tokens_of(generate(engine, kPrompt, greedily(5))));
}

TEST(CGenerate, EndsWhenTheContextIsFull) {
  bonsai_engine_options options = seedling();
  options.context = 40;
  const GenerationHandle generation = generate(load(options), kPrompt, greedily(100));
  EXPECT_EQ(generation->finish, uint32_t{BONSAI_FINISH_CONTEXT_FULL});
  EXPECT_EQ(generation->n_tokens, 35u);
}

TEST(CGenerate, FollowsAGrammarOrASchemaButNotBoth) {
  const EngineHandle engine = load();
  bonsai_generate_options options = greedily(60);
  options.grammar = "root ::= \" there was a \" (\"king\" | \"fox\") \".\"";
  const GenerationHandle told = generate(engine, kPrompt, options);
  EXPECT_EQ(told->finish, uint32_t{BONSAI_FINISH_END_OF_TEXT});
  EXPECT_TRUE(text_of(told) == " there was a king." || text_of(told) == " there was a fox.") << text_of(told);
  options.json_schema = R"({"enum": ["king", "queen"]})";
  EXPECT_NE(refusal(engine, options).find("grammar"), std::string::npos);
  options.grammar = nullptr;
  const std::string json = text_of(generate(engine, kPrompt, options));
  EXPECT_TRUE(json == "\"king\"" || json == "\"queen\"") << json;
  options.json_schema = nullptr;
  options.grammar = "root ::= item";
  EXPECT_EQ(refusal(engine, options), "grammar, line 1, column 10: rule 'item' is used, but not defined");
}

TEST(CGenerate, GuessesChangeNothing) {
  const EngineHandle engine = load(), drafting = load();
  const GenerationHandle expected = generate(engine, kPrompt, greedily(60));
  bonsai_generate_options options = greedily(60);
  options.lookup = 1;
  EXPECT_EQ(tokens_of(generate(engine, kPrompt, options)), tokens_of(expected));
  options.draft = drafting.get();
  const GenerationHandle guessed = generate(engine, kPrompt, options);
  EXPECT_EQ(tokens_of(guessed), tokens_of(expected));
  EXPECT_EQ(guessed->decode_steps, 59u);
  EXPECT_LT(guessed->decode_passes, 59u);  // the same model guesses right
}

TEST(CGenerate, TheCallbackCanEndIt) {
  Listener listener;
  listener.end_at = 3;
  const GenerationHandle generation = generate(load(), kPrompt, greedily(48), &listener);
  EXPECT_EQ(generation->finish, uint32_t{BONSAI_FINISH_CANCELLED});
  EXPECT_EQ(listener.n_pieces, 3);
  EXPECT_EQ(listener.text, ", in the");
  EXPECT_EQ(text_of(generation), listener.text);
}

// Any answer but 0, also one that a careless `!= 1` would take for yes.
TEST(CGenerate, ACallbackThatFailsEndsItToo) {
  const auto fails = [](void *, bonsai_piece, const char *, uint64_t) -> int32_t { return -1; };
  const EngineHandle engine = load();
  const bonsai_generate_options options = greedily(48);
  const GenerationHandle generation = generated([&](auto made, auto failure) {
    return bonsai_engine_generate(engine.get(), kPrompt, BONSAI_TO_NUL, &options, fails, nullptr, made, failure);
  });
  EXPECT_EQ(generation->finish, uint32_t{BONSAI_FINISH_CANCELLED});
  EXPECT_EQ(generation->n_tokens, 1u);
}

TEST(CStop, EndsAGenerationFromAnotherThread) {
  struct Stopper {
    StopHandle stop{bonsai_stop_new()};
    int n_pieces = 0;
    static int32_t receive(void *context, bonsai_piece, const char *, uint64_t) {
      Stopper &stopper = *static_cast<Stopper *>(context);
      if (++stopper.n_pieces == 3) std::thread([&stopper] { bonsai_stop_request(stopper.stop.get()); }).join();
      return 0;
    }
  } stopper;
  const EngineHandle engine = load();
  const SessionHandle session = new_session(engine, kPrompt);
  bonsai_generate_options options = greedily(1000);
  options.ignore_eos = 1;
  options.stop = stopper.stop.get();
  const auto ask = [&] {
    return generated([&](auto made, auto failure) {
      return bonsai_session_generate(session.get(), &options, Stopper::receive, &stopper, made, failure);
    });
  };
  EXPECT_EQ(ask()->finish, uint32_t{BONSAI_FINISH_CANCELLED});
  EXPECT_EQ(stopper.n_pieces, 3);
  // It stays requested, for this and for others; without it the session goes on.
  const GenerationHandle nothing = ask();
  EXPECT_EQ(nothing->finish, uint32_t{BONSAI_FINISH_CANCELLED});
  EXPECT_EQ(nothing->n_tokens, 0u);
  EXPECT_EQ(generate(engine, kPrompt, options)->n_tokens, 0u);
  EXPECT_EQ(generate(session, greedily(4))->n_tokens, 4u);
}

TEST(CStop, RequestedBeforeTheStartLeavesNothingToSay) {
  const StopHandle stop(bonsai_stop_new());
  ASSERT_NE(stop, nullptr);
  bonsai_stop_request(stop.get());
  bonsai_stop_request(stop.get());
  bonsai_generate_options options = greedily(10);
  options.stop = stop.get();
  const GenerationHandle generation = generate(load(), kPrompt, options);
  EXPECT_EQ(generation->finish, uint32_t{BONSAI_FINISH_CANCELLED});
  EXPECT_EQ(generation->n_tokens, 0u);
  EXPECT_EQ(text_of(generation), "");
}

TEST(CGenerateRefuses, OptionsThatMeanNothing) {
  const EngineHandle engine = load();
  EXPECT_EQ(refusal(engine, greedily(0)), "max_tokens: expected at least 1, found 0");
  bonsai_generate_options options = greedily(1);
  options.top_p = -1;
  EXPECT_EQ(refusal(engine, options), "top-p: expected a number from 0 to 1, found -1");
  const int32_t token = 4096;
  const float add = 1;
  options = greedily(1);
  options.n_logit_bias = 1;
  options.bias_tokens = &token;
  options.bias_adds = &add;
  EXPECT_NE(refusal(engine, options).find("4096"), std::string::npos);
}

TEST(CGenerate, ManyThreadsMayUseOneEngine) {
  const EngineHandle engine = load();
  const std::string expected = text_of(generate(engine, "The King said", greedily(24)));
  std::array<std::string, 4> texts;
  std::vector<std::thread> threads;
  for (std::string &text : texts)
    threads.emplace_back([&] { text = text_of(generate(engine, "The King said", greedily(24))); });
  for (std::thread &thread : threads) thread.join();
  for (const std::string &text : texts) EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace bonsai::c
