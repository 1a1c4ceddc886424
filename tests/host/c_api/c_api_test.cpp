// Engines through the C API: loaded, described, asked for tokens and embeddings, and refused in words.
#include <gtest/gtest.h>

#include <mutex>

#include "tests/host/c_api/handles.h"

namespace bonsai::c {
namespace {

TEST(CEngine, TellsTheStoryThatTheCxxApiTells) {
  const Generation expected = load_seedling().generate("Once upon a time", greedy(48));
  const EngineHandle engine = load();
  Listener listener;
  const GenerationHandle generation = generate(engine, "Once upon a time", greedily(48), &listener);
  EXPECT_EQ(generation->struct_size, sizeof(bonsai_generation));
  EXPECT_EQ(text_of(generation), expected.text);
  EXPECT_EQ(listener.text, expected.text);
  EXPECT_GT(listener.n_pieces, 10);
  EXPECT_EQ(tokens_of(generation), expected.tokens);
  EXPECT_EQ(generation->finish, uint32_t{BONSAI_FINISH_LENGTH});
  EXPECT_EQ(reasoning_of(generation), "");
  EXPECT_EQ(generation->failed_over, nullptr);
  EXPECT_EQ(generation->prompt_tokens, 5u);
  EXPECT_EQ(generation->decode_steps, 47u);
  EXPECT_EQ(generation->decode_passes, 47u);
  EXPECT_GT(generation->prompt_seconds, 0);
  EXPECT_GT(generation->decode_seconds, 0);
}

// The five lines of bonsai.h: nothing but a prompt.
TEST(CEngine, GeneratesWithoutOptionsCallbackResultOrFailure) {
  const EngineHandle engine = load();
  EXPECT_EQ(bonsai_engine_generate(engine.get(), "Once", BONSAI_TO_NUL, nullptr, nullptr, nullptr, nullptr, nullptr),
            uint32_t{BONSAI_SUCCESS});
}

TEST(CEngine, DescribesItself) {
  const Engine expected = load_seedling();
  const EngineHandle engine = load();
  const bonsai_engine_info info = describe(engine);
  EXPECT_EQ(info.vocabulary, 4096u);
  EXPECT_EQ(info.trained_context, 1024u);
  EXPECT_EQ(info.context, 1024u);
  EXPECT_EQ(info.embedding, expected.embed("x").size());
  EXPECT_EQ(info.threads, expected.backend().threads);
  EXPECT_EQ(info.weight_bytes, expected.memory().weight_bytes);
  EXPECT_EQ(info.mapped_bytes, expected.memory().mapped_bytes);
  EXPECT_EQ(info.session_bytes, expected.memory().session_bytes);
  EXPECT_STREQ(info.model, "Bonsai Seedling");
  EXPECT_STREQ(info.backend, "cpu");
  EXPECT_EQ(info.device, expected.backend().device.substr(0, sizeof info.device - 1));
}

TEST(CEngine, TakesItsOptionsAsTheyAre) {
  const char *const backend_options[] = {"cpu.isa=portable"};
  bonsai_engine_options options = seedling();
  options.backend = "cpu";
  options.backend_strict = 1;
  options.n_backend_options = 1;
  options.backend_options = backend_options;
  options.threads = 1;
  options.context = 40;
  options.kv = "q8_0";
  const EngineHandle engine = load(options);
  const bonsai_engine_info info = describe(engine);
  EXPECT_EQ(info.context, 40u);
  EXPECT_EQ(info.threads, 1u);

  EngineOptions same = seedling_options();
  same.backend_options = {{"cpu.isa", "portable"}};
  same.threads = 1;
  same.context = 40;
  same.kv = KvType::kQ8_0;
  EXPECT_EQ(info.session_bytes, Engine::load(same).memory().session_bytes);
  EXPECT_EQ(text_of(generate(engine, "Once upon a time", greedily(20))),
            Engine::load(same).generate("Once upon a time", greedy(20)).text);
}

struct Log {
  std::mutex mutex;
  std::string lines[4];  // of each level

  static void receive(void *context, uint32_t level, const char *line) {
    Log &log = *static_cast<Log *>(context);
    const std::lock_guard lock(log.mutex);
    ASSERT_LE(level, 3u);
    log.lines[level].append(line).append("\n");
  }
};

TEST(CEngine, LogsTheChoiceOfABackend) {
  Log log;
  bonsai_engine_options options = seedling();
  options.backend = "abacus";
  options.log = Log::receive;
  options.log_context = &log;
  load(options);
  EXPECT_NE(log.lines[1].find("using cpu"), std::string::npos) << log.lines[1];
  EXPECT_NE(log.lines[2].find("falling back to the CPU"), std::string::npos) << log.lines[2];
}

TEST(CEngine, ReportsProgressToItsEnd) {
  struct Progress {
    uint64_t last = 0, total = 1;
    static void receive(void *context, uint64_t done_bytes, uint64_t total_bytes) {
      Progress &progress = *static_cast<Progress *>(context);
      EXPECT_GE(done_bytes, progress.last);
      progress = {done_bytes, total_bytes};
    }
  } progress;
  bonsai_engine_options options = seedling();
  options.progress = Progress::receive;
  options.progress_context = &progress;
  load(options);
  EXPECT_EQ(progress.last, progress.total);
  EXPECT_GT(progress.total, 500'000u);
}

// What was generated, and why by another than it was asked from.
TEST(CEngine, TellsThatTheCpuTookOver) {
  Log log;
  const char *const backend_options[] = {"fail.at=3", "fail.status=internal", "fail.function=forward_wait"};
  bonsai_engine_options options = seedling();
  options.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so";
  options.n_backend_options = 3;
  options.backend_options = backend_options;
  options.threads = 1;
  options.context = 64;
  options.log = Log::receive;
  options.log_context = &log;
  {
    const EngineHandle engine = load(options);
    const GenerationHandle generation = generate(engine, "Once upon a time", greedily(12));
    EXPECT_STREQ(generation->failed_over, "failing: injected into forward_wait (internal error)");
    EXPECT_EQ(text_of(generation), load_seedling().generate("Once upon a time", greedy(12)).text);
    EXPECT_EQ(generate(engine, "Once", greedily(1))->failed_over, nullptr);  // it had happened before
    const bonsai_engine_info info = describe(engine);
    EXPECT_STREQ(info.backend, "cpu");
  }
  EXPECT_NE(log.lines[2].find("failed, going on with the CPU"), std::string::npos) << log.lines[2];

  options.backend_strict = 1;
  const EngineHandle strict = load(options);
  expect_failure(
      BONSAI_BACKEND_FAILED,
      "failing: injected into forward_wait (internal error); the CPU may not take over from a strictly chosen backend",
      [&](auto failure) {
        const bonsai_generate_options twelve = greedily(12);
        return bonsai_engine_generate(strict.get(), "Once", BONSAI_TO_NUL, &twelve, nullptr, nullptr, nullptr, failure);
      });
}

// Whoever still works with a model keeps what it needs of it.
TEST(CEngine, MayBeFreedBeforeWhatWasMadeFromIt) {
  EngineHandle engine = load(), drafting = load();
  const SessionHandle session = new_session(engine, "Once upon a time");
  const ChatHandle chat = new_chat(engine);
  bonsai_generate_options options = greedily(8);
  options.draft = drafting.get();
  const GenerationHandle before = generate(session, options);
  engine.reset();
  drafting.reset();
  EXPECT_EQ(text_of(before), ", in the middle of the forest,");
  EXPECT_EQ(generate(session, greedily(40))->n_tokens, 40u);
  EXPECT_EQ(send(chat, "Once upon a time", greedily(4))->n_tokens, 4u);
}

TEST(CArrays, AreFilledAsFarAsTheyGo) {
  const EngineHandle engine = load();
  const std::vector<int32_t> expected = {2258, 640, 258, 518};
  for (const uint64_t capacity : {0, 1, 3, 4, 6}) {
    std::vector<int32_t> tokens(capacity, -1);
    uint64_t n = 0;
    succeed([&](auto failure) {
      return bonsai_engine_tokenize(engine.get(), "Once upon a time", BONSAI_TO_NUL, 1,
                                    capacity == 0 ? nullptr : tokens.data(), capacity, &n, failure);
    });
    EXPECT_EQ(n, 4u);
    for (size_t i = 0; i < capacity; ++i) EXPECT_EQ(tokens[i], i < 4 ? expected[i] : -1) << i << " of " << capacity;
  }
  for (const uint64_t capacity : {0, 5, 16, 20}) {
    std::string text(capacity, '#');
    uint64_t n = 0;
    succeed([&](auto failure) {
      return bonsai_engine_detokenize(engine.get(), expected.data(), expected.size(),
                                      capacity == 0 ? nullptr : text.data(), capacity, &n, failure);
    });
    EXPECT_EQ(n, 16u);
    EXPECT_EQ(text, ("Once upon a time" + std::string(4, '#')).substr(0, capacity));
  }
}

TEST(CTexts, EndAtTheirLengthOrAtTheirNul) {
  const EngineHandle engine = load();
  const auto length_of = [&](const char *text, uint64_t n_bytes, uint32_t parse_special) {
    uint64_t n = 0;
    succeed([&](auto failure) {
      return bonsai_engine_tokenize(engine.get(), text, n_bytes, parse_special, nullptr, 0, &n, failure);
    });
    return n;
  };
  EXPECT_EQ(length_of("Once upon a time", BONSAI_TO_NUL, 0), 4u);
  EXPECT_EQ(length_of("Once upon a time", 4, 0), 1u);
  EXPECT_EQ(length_of("Once upon a time", 0, 0), 0u);
  EXPECT_EQ(length_of("Once\0 upon", BONSAI_TO_NUL, 0), 1u);
  EXPECT_GT(length_of("Once\0 upon", 10, 0), 2u);  // a NUL is a character like any other
  EXPECT_EQ(length_of("<|endoftext|>", BONSAI_TO_NUL, 1), 1u);
  EXPECT_GT(length_of("<|endoftext|>", BONSAI_TO_NUL, 0), 1u);
}

// What a loop of one's own needs: how a prompt begins, where a text ends, and what control tokens are called.
TEST(CTexts, BeginAndEndAsTheModelWants) {
  const EngineHandle engine = load();
  const SessionHandle session = new_session(engine, kPrompt);
  std::vector<int32_t> in_session(16), prompt(16);
  uint64_t n = 0;
  succeed([&](auto failure) {
    return bonsai_session_tokens(session.get(), in_session.data(), in_session.size(), &n, failure);
  });
  in_session.resize(n);
  succeed([&](auto failure) {
    return bonsai_engine_tokenize_prompt(engine.get(), kPrompt, BONSAI_TO_NUL, prompt.data(), prompt.size(), &n,
                                         failure);
  });
  prompt.resize(n);
  EXPECT_EQ(prompt, in_session);
  EXPECT_EQ(prompt.size(), 5u);

  std::string text(64, '\0');
  succeed([&](auto failure) {
    return bonsai_engine_spell_out(engine.get(), prompt.data(), 2, text.data(), text.size(), &n, failure);
  });
  EXPECT_EQ(text.substr(0, n), "<|endoftext|>Once");
  uint32_t ends = 7;
  for (const auto &[token, expected] : {std::pair{prompt[0], 1u}, std::pair{prompt[1], 0u}}) {
    succeed([&](auto failure) { return bonsai_engine_ends_text(engine.get(), token, &ends, failure); });
    EXPECT_EQ(ends, expected) << token;
  }
  expect_failure(BONSAI_BAD_ARGUMENT, "token id 4096 is outside the vocabulary of 4096",
                 [&](auto failure) { return bonsai_engine_ends_text(engine.get(), 4096, &ends, failure); });
  expect_failure(BONSAI_BAD_ARGUMENT, "ends: expected one, found NULL",
                 [&](auto failure) { return bonsai_engine_ends_text(engine.get(), 1, nullptr, failure); });
}

TEST(CEmbedding, IsThatOfTheCxxApi) {
  const Engine expected = load_seedling();
  const EngineHandle engine = load();
  const std::string text = "The king had three daughters.";
  const size_t size = expected.model().embedding;
  for (const auto &[pooling, same] : {std::pair{uint32_t{BONSAI_POOLING_MEAN}, Pooling::kMean},
                                      {uint32_t{BONSAI_POOLING_LAST}, Pooling::kLast},
                                      {uint32_t{BONSAI_POOLING_MODEL}, Pooling::kModel}}) {
    std::vector<float> vector(size + 1, -7);
    succeed([&](auto failure) {
      return bonsai_engine_embed(engine.get(), text.data(), text.size(), pooling, vector.data(), vector.size(),
                                 failure);
    });
    EXPECT_EQ(vector.back(), -7);
    vector.pop_back();
    EXPECT_EQ(vector, expected.embed(text, {.pooling = same}));
  }
  std::vector<float> vector(size);
  expect_failure(BONSAI_BAD_ARGUMENT,
                 "capacity: expected at least " + std::to_string(size) + ", found " + std::to_string(size - 1),
                 [&](auto failure) {
                   return bonsai_engine_embed(engine.get(), text.data(), text.size(), BONSAI_POOLING_MEAN,
                                              vector.data(), size - 1, failure);
                 });
  expect_failure(BONSAI_BAD_ARGUMENT, "pooling: expected 0 (mean), 1 (last) or 2 (the model's), found 3",
                 [&](auto failure) {
                   return bonsai_engine_embed(engine.get(), text.data(), text.size(), 3, vector.data(), size, failure);
                 });
}

// Every engine that is refused leaves NULL in the place of it.
void expect_no_engine(const bonsai_engine_options &options, bonsai_outcome outcome, const std::string &begin) {
  const EngineHandle other = load();
  bonsai_engine *engine = other.get();
  const Report report = report_of([&](auto failure) { return bonsai_engine_load(&options, &engine, failure); });
  EXPECT_EQ(report.outcome, outcome) << report.message;
  EXPECT_TRUE(report.message.starts_with(begin)) << report.message;
  EXPECT_EQ(engine, nullptr);
}

TEST(CEngineRefuses, AFileThatIsNoModel) {
  expect_no_engine(options_for("/nonexistent/model.gguf"), BONSAI_BAD_MODEL, "/nonexistent/model.gguf: ");
  expect_no_engine(options_for(BONSAI_SOURCE_DIR "/README.md"), BONSAI_BAD_MODEL, BONSAI_SOURCE_DIR "/README.md: ");
}

TEST(CEngineRefuses, ABackendThatIsNotThereIfStrict) {
  bonsai_engine_options options = seedling();
  options.backend = "abacus";
  options.backend_strict = 1;
  expect_no_engine(options, BONSAI_BACKEND_FAILED, "backend 'abacus' could not be opened: ");
}

TEST(CEngineRefuses, OptionsThatMakeNoSense) {
  bonsai_engine_options options = seedling();
  options.kv = "f64";
  expect_no_engine(options, BONSAI_BAD_ARGUMENT, "kv: expected f16, q8_0 or f32, found 'f64'");
  options = options_for("");
  expect_no_engine(options, BONSAI_BAD_ARGUMENT, "model: expected a file's path, found none");
  options = seedling();
  options.context = 1025;
  expect_no_engine(options, BONSAI_BAD_ARGUMENT, "context of 1025 tokens: the model knows no more than 1024");
}

TEST(CEngineRefuses, BackendOptionsThatAreNoPairs) {
  const auto refused = [](const char *const *backend_options, const std::string &begin) {
    bonsai_engine_options options = seedling();
    options.n_backend_options = 1;
    options.backend_options = backend_options;
    expect_no_engine(options, BONSAI_BAD_ARGUMENT, begin);
  };
  const char *const without_value[] = {"cpu.isa"}, *const without_key[] = {"=avx2"}, *const missing[] = {nullptr};
  const char *const unknown[] = {"cpu.thread=1"}, *const of_two[] = {"cpu.isa=z80=best"};
  refused(without_value, "backend_options: expected key=value, found 'cpu.isa'");
  refused(without_key, "backend_options: expected key=value, found '=avx2'");
  refused(missing, "backend_options: expected one, found NULL");
  refused(nullptr, "backend_options: expected 1, found NULL");
  refused(unknown, "no backend knows the option 'cpu.thread'; known are: ");
  refused(of_two, "cpu: ");  // the first '=' ends the key
}

TEST(CEngineRefuses, TextThatIsNotUtf8) {
  const EngineHandle engine = load();
  uint64_t n = 0;
  expect_failure(BONSAI_BAD_ARGUMENT, "invalid UTF-8 at byte offset 4", [&](auto failure) {
    return bonsai_engine_tokenize(engine.get(), "Once\x80", BONSAI_TO_NUL, 0, nullptr, 0, &n, failure);
  });
}

TEST(CLibrary, TellsItsVersion) { EXPECT_STREQ(bonsai_version(), "0.1.0"); }

TEST(CLibrary, SaysNothingOnStdoutOrStderr) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  {
    bonsai_engine_options options = seedling();
    options.backend = "abacus";  // a warning, which nobody asked to hear
    generate(load(options), "Once upon a time", greedily(3));
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace bonsai::c
