#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "core/gguf/writer.h"
#include "tests/text/tiny_tokenizer.h"

namespace bonsai::text {
namespace {

class TokenizerMetadata : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  // Writes the tiny tokenizer's keys, lets `change` set others, and reads the file back.
  Result<TokenizerData> read_back(const TokenizerData &data, const std::function<void(gguf::Writer &)> &change) {
    auto writer = gguf::Writer::create(path_);
    EXPECT_TRUE(writer) << writer.error().message;
    write_tokenizer(data, *writer);
    change(*writer);
    return finish_and_read(*writer);
  }

  Result<TokenizerData> finish_and_read(gguf::Writer &writer) {
    EXPECT_TRUE(writer.begin_data());
    EXPECT_TRUE(writer.finish());
    const auto file = gguf::File::open(path_);
    if (!file) return tl::unexpected(file.error());
    return read_tokenizer(*file);
  }

  // The error without the path in front of it, which must be there.
  std::string error_with(const std::function<void(gguf::Writer &)> &change) {
    return without_path(read_back(tiny_tokenizer_data(), change));
  }

  std::string without_path(const Result<TokenizerData> &data) {
    if (data) return "no error";
    const std::string prefix = path_ + ": ";
    EXPECT_EQ(data.error().message.substr(0, prefix.size()), prefix);
    return data.error().message.substr(prefix.size());
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / fmt::format("bonsai-tokenizer-{}.gguf", getpid())).string();
};

TEST_F(TokenizerMetadata, WhatIsWrittenIsReadBack) {
  TokenizerData data = tiny_tokenizer_data();
  data.add_bos = true;
  data.more_eos = {kImStart, kThink};
  const auto read = read_back(data, [](gguf::Writer &) {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tokens, data.tokens);
  EXPECT_EQ(read->types, data.types);
  EXPECT_EQ(read->merges, data.merges);
  EXPECT_EQ(read->pre, data.pre);
  EXPECT_EQ(read->bos, data.bos);
  EXPECT_EQ(read->eos, data.eos);
  EXPECT_EQ(read->pad, data.pad);
  EXPECT_EQ(read->more_eos, data.more_eos);
  EXPECT_TRUE(read->add_bos);
  EXPECT_EQ(read->chat_template, data.chat_template);
}

TEST_F(TokenizerMetadata, WhatATokenizerLacksStaysAbsent) {
  TokenizerData data = tiny_tokenizer_data();
  data.bos = data.eos = data.pad = std::nullopt;
  data.chat_template = "";
  const auto read = read_back(data, [](gguf::Writer &) {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->bos, std::nullopt);
  EXPECT_EQ(read->eos, std::nullopt);
  EXPECT_EQ(read->pad, std::nullopt);
  EXPECT_TRUE(read->more_eos.empty());
  EXPECT_FALSE(read->add_bos);
  EXPECT_EQ(read->chat_template, "");
}

TEST_F(TokenizerMetadata, TheEndsOfTurnsAndMessagesEndAGeneration) {
  const auto read = read_back(tiny_tokenizer_data(), [](gguf::Writer &writer) {
    writer.set_uint32("tokenizer.ggml.eot_token_id", kThink);
    writer.set_uint32("tokenizer.ggml.eom_token_id", kThinking);
  });
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->more_eos, (std::vector<int32_t>{kThink, kThinking}));
}

// As unsigned numbers, in which -1 is a large one.
TEST_F(TokenizerMetadata, IdsThatNoTokenCanHaveAreNoReasonToRefuseAFile) {
  constexpr uint32_t kIds[] = {5, UINT32_MAX};
  const auto read = read_back(tiny_tokenizer_data(), [&](gguf::Writer &writer) {
    const gguf::Array array = {gguf::ValueType::kUint32, std::size(kIds), std::as_bytes(std::span(kIds))};
    writer.set_value("tokenizer.ggml.eos_token_ids", {gguf::ValueType::kArray, array});
    writer.set_uint32("tokenizer.ggml.eot_token_id", UINT32_MAX);
  });
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->more_eos, (std::vector<int32_t>{-1, 5, -1}));
  const auto tokenizer = Tokenizer::create(*read);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_TRUE(tokenizer->is_end_of_generation(5));
  EXPECT_EQ(tokenizer->warnings().size(), 1u);
}

// eos_token_ids is known to few programs, eot_token_id to all.
TEST_F(TokenizerMetadata, AnotherTokenThatEndsAGenerationIsWrittenAsTheEndOfTurn) {
  TokenizerData data = tiny_tokenizer_data();
  data.more_eos = {kImStart};
  auto writer = gguf::Writer::create(path_);
  write_tokenizer(data, *writer);
  ASSERT_TRUE(finish_and_read(*writer));
  const auto file = gguf::File::open(path_);
  ASSERT_NE(file->find("tokenizer.ggml.eot_token_id"), nullptr);
  EXPECT_EQ(file->find("tokenizer.ggml.eot_token_id")->as_int(), kImStart);
  EXPECT_EQ(file->find("tokenizer.ggml.eos_token_ids"), nullptr);
}

// Nothing is padded: what stands there harms nobody.
TEST_F(TokenizerMetadata, APaddingTokenThatIsNoneIsIgnored) {
  for (const int64_t id : {int64_t{-1}, int64_t{268}, int64_t{UINT32_MAX}}) {
    const auto read = read_back(tiny_tokenizer_data(), [id](gguf::Writer &writer) {
      writer.set_value("tokenizer.ggml.padding_token_id", {gguf::ValueType::kInt64, id});
    });
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->pad, std::nullopt);
    EXPECT_TRUE(Tokenizer::create(*read));
  }
}

TEST_F(TokenizerMetadata, AMissingKeyIsNamed) {
  const auto error_after = [&](const std::vector<std::string> &keys) {
    auto writer = gguf::Writer::create(path_);
    for (const std::string &key : keys) {
      if (key == "tokens" || key == "merges") {
        writer->set_strings("tokenizer.ggml." + key, std::vector<std::string>{"a b"});
      } else if (key == "token_type") {
        writer->set_int32s("tokenizer.ggml." + key, std::vector<int32_t>{1});
      } else {
        writer->set_string("tokenizer.ggml." + key, key == "model" ? "gpt2" : "qwen2");
      }
    }
    return without_path(finish_and_read(*writer));
  };
  EXPECT_EQ(error_after({}), "tokenizer.ggml.model is missing");
  EXPECT_EQ(error_after({"model"}), "tokenizer.ggml.pre is missing");
  EXPECT_EQ(error_after({"model", "pre"}), "tokenizer.ggml.tokens is missing");
  EXPECT_EQ(error_after({"model", "pre", "tokens"}), "tokenizer.ggml.merges is missing") << "types may be";
  EXPECT_EQ(error_after({"model", "pre", "tokens", "token_type"}), "tokenizer.ggml.merges is missing");
  EXPECT_EQ(error_after({"model", "pre", "tokens", "token_type", "merges"}), "no error");
}

TEST_F(TokenizerMetadata, AnotherKindOfTokenizerIsRefused) {
  EXPECT_EQ(error_with([](gguf::Writer &writer) { writer.set_string("tokenizer.ggml.model", "llama"); }),
            "tokenizer.ggml.model is 'llama'; expected 'gpt2' (byte-level BPE)");
}

TEST_F(TokenizerMetadata, AKeyOfTheWrongTypeIsNamed) {
  const auto with_number = [&](const char *key) {
    return error_with([&](gguf::Writer &writer) { writer.set_uint32(key, 7); });
  };
  EXPECT_EQ(with_number("tokenizer.ggml.model"), "tokenizer.ggml.model is not a string");
  EXPECT_EQ(with_number("tokenizer.ggml.pre"), "tokenizer.ggml.pre is not a string");
  EXPECT_EQ(with_number("tokenizer.chat_template"), "tokenizer.chat_template is not a string");
  EXPECT_EQ(with_number("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens is not an array of strings");
  EXPECT_EQ(with_number("tokenizer.ggml.token_type"), "tokenizer.ggml.token_type is not an array of integers");
  EXPECT_EQ(with_number("tokenizer.ggml.add_bos_token"), "tokenizer.ggml.add_bos_token is not a bool");
  EXPECT_EQ(
      error_with([](gguf::Writer &writer) { writer.set_int32s("tokenizer.ggml.merges", std::vector<int32_t>{1}); }),
      "tokenizer.ggml.merges is not an array of strings");
  EXPECT_EQ(
      error_with([](gguf::Writer &writer) { writer.set_float32s("tokenizer.ggml.token_type", std::vector<float>{1}); }),
      "tokenizer.ggml.token_type is not an array of integers");
  EXPECT_EQ(error_with([](gguf::Writer &writer) { writer.set_string("tokenizer.ggml.eos_token_id", "x"); }),
            "tokenizer.ggml.eos_token_id is not an integer");
}

// Some converters write -1 where there is no such token.
TEST_F(TokenizerMetadata, AnIdThatIsNoTokensIsIgnoredWithAWarning) {
  for (const int64_t id : {int64_t{-1}, int64_t{268}, int64_t{UINT32_MAX}, int64_t{1} << 32}) {
    const auto read = read_back(tiny_tokenizer_data(), [id](gguf::Writer &writer) {
      writer.set_value("tokenizer.ggml.bos_token_id", {gguf::ValueType::kInt64, id});
    });
    ASSERT_TRUE(read) << read.error().message;
    const auto tokenizer = Tokenizer::create(*read);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->bos(), std::nullopt);
    EXPECT_EQ(tokenizer->warnings(), std::vector<std::string>{"tokenizer.ggml.bos_token_id is no id below 268, the "
                                                              "number of tokens; ignored"});
  }
}

TEST(PadTokens, FillsUpToTheRowsOfTheEmbedding) {
  TokenizerData data = tiny_tokenizer_data();
  pad_tokens(data, 270);
  ASSERT_EQ(data.tokens.size(), 270u);
  EXPECT_EQ(data.tokens[269], "[PAD269]");
  EXPECT_EQ(data.types[269], 5);
  EXPECT_TRUE(Tokenizer::create(data));
  pad_tokens(data, 10);
  EXPECT_EQ(data.tokens.size(), 270u);
  data.tokens[3] = "[PAD270]";
  pad_tokens(data, 271);
  EXPECT_EQ(data.tokens[270], "[PAD270]_");
}

TEST(PadTokens, TypesThatAreMissingAreNormal) {
  TokenizerData data = tiny_tokenizer_data();
  data.types.clear();
  pad_tokens(data, 270);
  ASSERT_EQ(data.types.size(), 270u);
  EXPECT_EQ(data.types[kThink], 1);
  EXPECT_EQ(data.types[269], 5);
}

}  // namespace
}  // namespace bonsai::text
