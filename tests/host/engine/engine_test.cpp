// Loading a model, and what an engine says about itself.
#include <bonsai/engine.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <thread>

#include "tests/host/engine/seedling.h"
#include "tests/model/tiny_model.h"

namespace bonsai {
namespace {

TEST(Engine, FiveLinesGiveTokens) {
  const Engine engine = Engine::load({.model = seedling_file()});
  std::string streamed;
  const Generation generation = engine.generate("Once upon a time", greedy(48), [&](std::string_view text) {
    streamed += text;
    return true;
  });
  const GoldenGreedy golden = golden_greedy();
  EXPECT_EQ("Once upon a time" + generation.text, golden.text);
  EXPECT_EQ(streamed, generation.text);
  EXPECT_EQ(generation.tokens, std::vector<int32_t>(golden.tokens.begin() + 5, golden.tokens.end()));
}

TEST(Engine, SaysNothingOnStdoutOrStderr) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  {
    EngineOptions options = seedling_options();
    options.backend = "abacus";  // a warning, which nobody asked to hear
    Engine::load(options).generate("Once upon a time", greedy(3));
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Engine, TellsAboutModelBackendAndMemory) {
  const Engine engine = load_seedling();
  EXPECT_EQ(engine.model().name, "Bonsai Seedling");
  EXPECT_EQ(engine.model().vocabulary, 4096u);
  EXPECT_EQ(engine.model().trained_context, 1024u);
  EXPECT_EQ(engine.model().context, 1024u);
  EXPECT_EQ(engine.backend().name, "cpu");
  EXPECT_NE(engine.backend().kernel, "");
  EXPECT_GT(engine.memory().weight_bytes + engine.memory().mapped_bytes, 500'000u);
  // Keys and values of 6 layers, 2 heads of 64, 1,024 positions, in half precision: 3 MiB at least.
  EXPECT_GE(engine.memory().session_bytes, 3u << 20);
}

TEST(Engine, ReportsProgressToItsEnd) {
  EngineOptions options = seedling_options();
  uint64_t last = 0, total = 1;
  options.progress = [&](uint64_t done_bytes, uint64_t total_bytes) {
    EXPECT_GE(done_bytes, last);
    last = done_bytes;
    total = total_bytes;
  };
  Engine::load(options);
  EXPECT_EQ(last, total);
  EXPECT_GT(total, 500'000u);
}

TEST(Engine, LogsTheChoiceOfABackend) {
  EngineOptions options = seedling_options();
  std::string info, warnings;
  options.backend = "abacus";
  options.log = [&](LogLevel level, std::string_view line) {
    (level == LogLevel::kInfo ? info : warnings).append(line).append("\n");
  };
  const Engine engine = Engine::load(options);
  EXPECT_NE(info.find("using cpu"), std::string::npos) << info;
  EXPECT_NE(warnings.find("falling back to the CPU"), std::string::npos) << warnings;
}

TEST(Engine, RunsOnABackendGivenByPath) {
  EngineOptions options = seedling_options();
  options.backend = BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_template.so";
  options.backend_strict = true;
  const Engine engine = Engine::load(options);
  EXPECT_EQ(engine.backend().name, "template");
  EXPECT_EQ(engine.backend().level, 0);
  EXPECT_EQ(engine.generate("Once upon a time", greedy(8)).text, ", in the middle of the forest,");
  // It has no account of its memory, but says what each weight occupies.
  EXPECT_GT(engine.memory().weight_bytes, 500'000u);
}

// What became of each weight was said when it was uploaded: the sums are what another backend's own account says.
TEST(Engine, CountsWhatIsMappedForABackendWithoutAnAccount) {
  const test::TinyModelFile file({.format = quant::Format::kF32});
  EngineOptions options;
  options.model = file.path();
  options.backend = "cpu";
  options.backend_strict = true;
  options.backend_options = {{"cpu.mapped", "on"}};
  const MemoryInfo told = Engine::load(options).memory();
  options.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_unaccounted.so";
  options.backend_options = {};
  const MemoryInfo counted = Engine::load(options).memory();
  EXPECT_GT(told.mapped_bytes, 0u);
  EXPECT_EQ(counted.mapped_bytes, told.mapped_bytes);
  EXPECT_EQ(counted.weight_bytes, told.weight_bytes);
}

// At level 0 the cache is the host's, and its blocks are none of the device's business.
TEST(Engine, KeepsItsOwnCacheInItsOwnBlocks) {
  const auto session_bytes = [](const std::string &backend) {
    EngineOptions options = seedling_options();
    options.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_" + backend + ".so";
    options.backend_strict = true;
    options.context = 64;
    return Engine::load(options).memory().session_bytes;
  };
  EXPECT_EQ(session_bytes("large_blocks"), session_bytes("failing_gemv"));
}

TEST(Engine, TextAndTokensConvert) {
  const Engine engine = load_seedling();
  EXPECT_EQ(engine.tokenize("Once upon a time"), (std::vector<int32_t>{2258, 640, 258, 518}));
  EXPECT_EQ(engine.detokenize(engine.tokenize("Once upon a time")), "Once upon a time");
  EXPECT_EQ(engine.tokenize("<|endoftext|>"), (std::vector<int32_t>{4093}));
  EXPECT_GT(engine.tokenize("<|endoftext|>", false).size(), 1u);
  EXPECT_TRUE(engine.ends_text(4093));
  EXPECT_FALSE(engine.ends_text(2258));
  EXPECT_EQ(thrown_by([&] { engine.ends_text(-1); }).kind, ErrorKind::kInvalidArgument);
}

TEST(Engine, ManyThreadsMayUseOne) {
  const Engine engine = load_seedling();
  const std::string expected = engine.generate("The King said", greedy(24)).text;
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string &text : texts)
    threads.emplace_back([&] { text = engine.generate("The King said", greedy(24)).text; });
  for (std::thread &thread : threads) thread.join();
  for (const std::string &text : texts) EXPECT_EQ(text, expected);
}

TEST(Engine, ASessionOutlivesItsEngine) {
  std::optional<Session> session;
  {
    Engine engine = load_seedling();
    Engine moved = std::move(engine);
    session = moved.new_session();
  }
  session->append("Once upon a time");
  EXPECT_EQ(session->generate(greedy(3)).text, ", in the");
}

TEST(EngineRefuses, FilesThatAreNoModel) {
  EngineOptions options;
  options.model = "/nonexistent/model.gguf";
  Thrown thrown = thrown_by([&] { Engine::load(options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kModel);
  EXPECT_EQ(thrown.message.rfind("/nonexistent/model.gguf: ", 0), 0u) << thrown.message;
}

// A caller can tell its own mistakes from a backend that fails.
TEST(EngineRefuses, OptionsThatMakeNoSense) {
  const auto refused = [](auto change) {
    EngineOptions options = seedling_options();
    options.backend = "cpu";
    change(options);
    const Thrown thrown = thrown_by([&] { Engine::load(options); });
    EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument) << thrown.message;
    return thrown.message;
  };
  EXPECT_EQ(refused([](EngineOptions &options) { options.model = ""; }), "model: expected a file's path, found none");
  EXPECT_EQ(refused([](EngineOptions &options) { options.kv = static_cast<KvType>(99); }),
            "kv: there is no KV type 99");
  EXPECT_EQ(refused([](EngineOptions &options) {
              options.backend_options = {{"device", "x"}};
            }),
            "option 'device': expected a device's number, found 'x'");
  EXPECT_TRUE(refused([](EngineOptions &options) {
                options.backend_options = {{"cpu.thread", "1"}};
              }).starts_with("no backend knows the option 'cpu.thread'; known are: "));
  EXPECT_TRUE(refused([](EngineOptions &options) {
                options.backend_options = {{"cpu.isa", "z80"}};
              }).starts_with("cpu: "));
  EXPECT_TRUE(refused([](EngineOptions &options) { options.threads = 4'000'000'000; }).starts_with("cpu: "));
}

TEST(EngineRefuses, ATextOfWhichNoTokenIsAllowed) {
  const Engine engine = load_seedling();
  GenerateOptions options = greedy(3);
  for (int32_t id = 0; id < 4096; ++id)
    options.sampling.logit_bias.push_back({id, -std::numeric_limits<float>::infinity()});
  const Thrown thrown = thrown_by([&] { engine.generate("Once", options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(thrown.message, "no token is allowed: every logit is -infinity");
}

TEST(EngineRefuses, TheTextOfIdsThatThereAreNot) {
  const Engine engine = load_seedling();
  for (const int32_t id : {-1, 4096}) {
    const Thrown thrown = thrown_by([&] { engine.detokenize({&id, 1}); });
    EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(thrown.message, "token id " + std::to_string(id) + " is outside the vocabulary of 4096");
  }
  EXPECT_EQ(engine.detokenize({}), "");
}

TEST(EngineRefuses, AnEvaluationForNobody) {
  Session session = load_seedling().new_session();
  const std::vector<int32_t> tokens = {1, 2};
  const Thrown thrown = thrown_by([&] { session.evaluate(tokens, {}); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(session.length(), 0u);
}

TEST(EngineRefuses, ABackendThatIsNotThereIfStrict) {
  EngineOptions options = seedling_options();
  options.backend = "abacus";
  options.backend_strict = true;
  const Thrown thrown = thrown_by([&] { Engine::load(options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kBackend);
  EXPECT_EQ(thrown.message.rfind("backend 'abacus' could not be opened: ", 0), 0u) << thrown.message;
}

TEST(EngineRefuses, AContextBeyondTheModels) {
  EngineOptions options = seedling_options();
  options.context = 1025;
  const Thrown thrown = thrown_by([&] { Engine::load(options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(thrown.message, "context of 1025 tokens: the model knows no more than 1024");
}

TEST(EngineRefuses, TextThatIsNotUtf8) {
  const Engine engine = load_seedling();
  const Thrown thrown = thrown_by([&] { engine.generate("Once\x80", greedy(1)); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(thrown.message, "invalid UTF-8 at byte offset 4");
}

}  // namespace
}  // namespace bonsai
