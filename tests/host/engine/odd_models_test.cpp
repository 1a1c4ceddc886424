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

TEST(OddModels, TheFileSaysHowTokensAreChosen) {
  const test::TinyModelFile plain({});
  EXPECT_EQ(Engine::load(options_for(plain)).model().sampling.temperature, SamplingOptions().temperature);
  const test::TinyModelFile file({.metadata = [](gguf::Writer &writer) {
    writer.set_float32("general.sampling.temp", 0.6f);
    writer.set_int32("general.sampling.top_k", -1);
    writer.set_uint32("general.sampling.top_p", 1);
    writer.set_float32("general.sampling.min_p", 0.05f);
    writer.set_float32("general.sampling.penalty_repeat", 1.1f);
    writer.set_int32("general.sampling.penalty_last_n", 128);
    writer.set_int32("general.sampling.mirostat", 0);
    writer.set_float32("general.sampling.mirostat_tau", 5);
  }});
  EngineOptions options = options_for(file);
  options.log = [](LogLevel level, std::string_view line) { EXPECT_LT(level, LogLevel::kWarning) << line; };
  const SamplingOptions sampling = Engine::load(options).model().sampling;
  EXPECT_EQ(sampling.temperature, 0.6f);
  EXPECT_EQ(sampling.top_k, 0u);
  EXPECT_EQ(sampling.top_p, 1);
  EXPECT_EQ(sampling.min_p, 0.05f);
  EXPECT_EQ(sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(sampling.penalty_window, 128);
}

TEST(OddModels, WhatAFileSaysOfSamplingThatCannotBeFollowedIsNamedAndLeft) {
  const test::TinyModelFile file({.metadata = [](gguf::Writer &writer) {
    writer.set_float32("general.sampling.temp", -1);
    writer.set_float32("general.sampling.top_k", 2.5f);
    writer.set_float32("general.sampling.top_p", std::numeric_limits<float>::quiet_NaN());
    writer.set_string("general.sampling.min_p", "0.1");
    writer.set_float32("general.sampling.penalty_repeat", 0);
    writer.set_int32("general.sampling.penalty_last_n", -2);
    writer.set_int32("general.sampling.mirostat", 2);
  }});
  EngineOptions options = options_for(file);
  std::string warnings;
  options.log = [&](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarning) warnings.append(line).append("\n");
  };
  const SamplingOptions sampling = Engine::load(options).model().sampling, balanced;
  EXPECT_EQ(sampling.temperature, balanced.temperature);
  EXPECT_EQ(sampling.top_k, balanced.top_k);
  EXPECT_EQ(sampling.top_p, balanced.top_p);
  EXPECT_EQ(sampling.min_p, balanced.min_p);
  EXPECT_EQ(sampling.repetition_penalty, balanced.repetition_penalty);
  EXPECT_EQ(sampling.penalty_window, balanced.penalty_window);
  const std::string at = file.path() + ": ";
  EXPECT_EQ(warnings,
            at + "general.sampling.temp: expected a number >= 0, found -1; not used\n" +  //
                at + "general.sampling.top_k: expected a whole number, or -1 for all, found 2.5; not used\n" + at +
                "general.sampling.top_p: expected a number from 0 to 1, found nan; not used\n" + at +
                "general.sampling.min_p: expected a number from 0 to 1, found \"0.1\"; not used\n" + at +
                "general.sampling.penalty_repeat: expected a number > 0, found 0; not used\n" + at +
                "general.sampling.penalty_last_n: expected a whole number, or -1 for all, found -2; not used\n" + at +
                "'general.sampling.mirostat': not known here, tokens are chosen without it\n");
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
