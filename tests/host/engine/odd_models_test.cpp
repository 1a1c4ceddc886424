// Models that lack something, or that a backend cannot take.
#include <gtest/gtest.h>

#include <limits>

#include "tests/host/engine/seedling.h"
#include "tests/model/tiny_model.h"

namespace bonsai {
namespace {

EngineOptions options_for(const test::TinyModelFile &file) {
  EngineOptions options;
  options.model = file.path();
  return options;
}

TEST(OddModels, ABackendThatCannotTakeTheWeightsIsPassedOverUnlessStrict) {
  const test::TinyModelFile file({.format = quant::Format::kTQ2_0_G128});
  EngineOptions options = options_for(file);
  options.backend = BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_template.so";
  std::string warnings;
  options.log = [&](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarning) warnings.append(line).append("\n");
  };
  EXPECT_EQ(Engine::load(options).backend().name, "cpu");
  EXPECT_EQ(warnings.rfind("backend 'template' cannot run this model: ", 0), 0u) << warnings;
  EXPECT_NE(warnings.find("; falling back to the CPU\n"), std::string::npos) << warnings;
  options.backend_strict = true;
  const Thrown thrown = thrown_by([&] { Engine::load(options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kBackend);
  EXPECT_EQ(thrown.message.rfind("backend 'template' cannot run this model: ", 0), 0u) << thrown.message;
}

TEST(OddModels, WithoutBosAnEmptyPromptIsAnErrorAndOthersStartWithTheirText) {
  const test::TinyModelFile file({.without = {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token"}});
  const Engine engine = Engine::load(options_for(file));
  const Thrown thrown = thrown_by([&] { engine.generate("", greedy(1)); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(thrown.message, "empty prompt: the model has no BOS token to start from");
  Session session = engine.new_session();
  session.append("z");
  EXPECT_EQ(session.length(), 1u);
}

TEST(OddModels, WithoutTokenizerTokensWorkAndTextIsRefused) {
  const test::TinyModelFile file({.without = {"tokenizer.ggml.tokens"}});
  EngineOptions options = options_for(file);
  options.log = [](LogLevel level, std::string_view line) { EXPECT_LT(level, LogLevel::kWarning) << line; };
  const Engine engine = Engine::load(options);
  Session session = engine.new_session();
  session.append_tokens(std::vector<int32_t>{1, 2, 3});
  EXPECT_EQ(session.logits().size(), size_t{test::kTinyTokens});
  const Thrown thrown = thrown_by([&] { engine.tokenize("text"); });
  EXPECT_EQ(thrown.kind, ErrorKind::kModel);
  EXPECT_NE(thrown.message.find("tokenizer.ggml.tokens"), std::string::npos) << thrown.message;
}

TEST(OddModels, AWrongTokenizerIsNamedWithItsFile) {
  const test::TinyModelFile file(
      {.metadata = [](gguf::Writer &writer) { writer.set_string("tokenizer.ggml.pre", "magic"); }});
  const Engine engine = Engine::load(options_for(file));
  const Thrown thrown = thrown_by([&] { engine.tokenize("text"); });
  EXPECT_EQ(thrown.kind, ErrorKind::kModel);
  EXPECT_EQ(thrown.message.rfind(file.path() + ": tokenizer.ggml.pre", 0), 0u) << thrown.message;
}

// Whatever keys and values are stored as, and whoever keeps them.
TEST(OddModels, KeysOrValuesThatAreNoNumbersAreNotTakenForZeros) {
  for (const char *part : {"attn_k", "attn_v"}) {
    const test::TinyModelFile file({.format = quant::Format::kF32,
                                    .formats = {{part, quant::Format::kF32}},
                                    .factors = {{part, std::numeric_limits<double>::quiet_NaN()}}});
    for (const char *backend : {"cpu", BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_template.so"}) {
      for (const KvType kv : {KvType::kF16, KvType::kQ8_0, KvType::kF32}) {
        EngineOptions options = options_for(file);
        options.backend = backend;
        options.backend_strict = true;
        options.kv = kv;
        const Engine engine = Engine::load(options);
        const Thrown thrown = thrown_by([&] { engine.generate("abc", greedy(4)); });
        EXPECT_EQ(thrown.kind, ErrorKind::kBackend) << backend;
        EXPECT_NE(thrown.message.find("NaN"), std::string::npos) << thrown.message;
      }
    }
  }
}

TEST(OddModels, ALongContextIsUsedOnlyWhenAskedFor) {
  const test::TinyModelFile file({.context = 8192});
  EngineOptions options = options_for(file);
  EXPECT_EQ(Engine::load(options).model().context, 4096u);
  options.context = 5000;
  EXPECT_EQ(Engine::load(options).model().context, 5000u);
}

}  // namespace
}  // namespace bonsai
