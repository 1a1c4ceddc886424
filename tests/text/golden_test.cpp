// Ids that other implementations gave: Qwen3's vocabulary, and the seedling's tokenizer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/utf8.h"
#include "core/text/nfc.h"
#include "core/text/tokenizer.h"
#include "tests/text/random_text.h"

namespace bonsai::text {
namespace {

using Ids = std::vector<int32_t>;

std::string read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

nlohmann::json read_golden(const std::string &name) {
  return nlohmann::json::parse(read_file(std::string(BONSAI_TEST_DATA) + "/" + name));
}

// One golden text went through a program that made a line end of its backslash and n: the ids spell that, not the text
// beside them.
std::string text_of(const nlohmann::json &golden_case) {
  const auto text = golden_case["text"].get<std::string>();
  return text == R"(\u0041 \n)" ? "\\u0041 \n" : text;
}

class Qwen3Tokens : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = std::string(BONSAI_SHARED_DATA) + "/qwen3-vocab.gguf";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "qwen3-vocab.gguf is not in ../shared/data";
    const auto file = gguf::File::open(path);
    ASSERT_TRUE(file) << file.error().message;
    auto data = read_tokenizer(*file);
    ASSERT_TRUE(data) << data.error().message;
    auto tokenizer = Tokenizer::create(std::move(*data));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(Qwen3Tokens, EveryGoldenCaseBothWays) {
  const nlohmann::json golden = read_golden("qwen3-tokens-golden.json");
  ASSERT_EQ(golden["cases"].size(), 88u);
  for (const nlohmann::json &one : golden["cases"]) {
    const auto text = text_of(one);
    const auto ids = one["ids"].get<Ids>();
    const auto plain = one.value("ids_as_plain_text", ids);
    EXPECT_EQ(tokenizer_->encode(text, SpecialTokens::kParse), ids) << bonsai::quoted(text);
    EXPECT_EQ(tokenizer_->encode(text, SpecialTokens::kPlain), plain) << bonsai::quoted(text);
    EXPECT_EQ(tokenizer_->decode(ids, true), normalize_nfc(text)) << bonsai::quoted(text);
  }
}

TEST_F(Qwen3Tokens, TheFileSaysHowAConversationBeginsAndEnds) {
  EXPECT_EQ(tokenizer_->size(), 151936u);
  EXPECT_EQ(tokenizer_->bos(), 151643);
  EXPECT_EQ(tokenizer_->eos(), 151645);
  EXPECT_FALSE(tokenizer_->add_bos());
  EXPECT_EQ(tokenizer_->find("<|im_start|>"), 151644);
  EXPECT_TRUE(tokenizer_->is_control(151644));
  EXPECT_FALSE(tokenizer_->is_control(151667)) << "<think>";
  EXPECT_TRUE(tokenizer_->is_end_of_generation(151643));
  EXPECT_TRUE(tokenizer_->is_end_of_generation(151645));
  EXPECT_FALSE(tokenizer_->is_end_of_generation(151644));
  EXPECT_TRUE(tokenizer_->is_end_of_generation(151664)) << "<|file_sep|>";
  EXPECT_TRUE(tokenizer_->warnings().empty());
  EXPECT_EQ(tokenizer_->spelling(151935), "[PAD151935]");
  EXPECT_EQ(tokenizer_->chat_template().substr(0, 14), "{%- if tools %");
  EXPECT_EQ(tokenizer_->encode("<think>\n\n</think>", SpecialTokens::kPlain), (Ids{151667, 271, 151668}));
}

TEST_F(Qwen3Tokens, DecodingWhatWasEncodedGivesTheNormalizedText) {
  RandomText random(7);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random.text(12);
    const auto ids = tokenizer_->encode(text, SpecialTokens::kParse);
    ASSERT_TRUE(ids) << ids.error().message;
    ASSERT_EQ(tokenizer_->decode(*ids, true), normalize_nfc(text)) << "text " << i;
  }
}

TEST_F(Qwen3Tokens, StreamsOfRealTokensAreWholeCharacters) {
  const nlohmann::json golden = read_golden("qwen3-tokens-golden.json");
  for (const nlohmann::json &one : golden["cases"]) {
    StreamDecoder stream(*tokenizer_, true);
    std::string joined;
    for (const int32_t id : one["ids"].get<Ids>()) {
      const std::string piece = stream.push(id);
      ASSERT_EQ(find_invalid_utf8(piece), std::string_view::npos);
      joined += piece;
    }
    EXPECT_EQ(joined + stream.flush(), normalize_nfc(text_of(one)));
  }
}

// A quadratic merge or a pattern that runs out of stack would show here, as a test that does not come to an end.
TEST_F(Qwen3Tokens, RunsOfAMegabyteAreEncoded) {
  constexpr size_t kMegabyte = 1 << 20;
  for (const char c : {'a', ' ', '\n', '!', '<'}) {
    const std::string run(kMegabyte, c);
    const auto ids = tokenizer_->encode(run, SpecialTokens::kParse);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_TRUE(tokenizer_->decode(*ids) == run) << "a run of byte " << int{c};
  }
  std::string marks;
  while (marks.size() < kMegabyte) marks += "\u0301\u0316\u0345";
  const auto ids = tokenizer_->encode(marks, SpecialTokens::kParse);
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_TRUE(tokenizer_->decode(*ids) == normalize_nfc(marks));
}

// The seedling's own checkpoint is not part of a checkout; its tokenizer stands beside the other shared files.
TEST(SeedlingTokens, TokenizerJsonGivesTheGoldenIds) {
  const std::string folder = std::string(BONSAI_SHARED_DATA) + "/../seedling/out/";
  if (!std::filesystem::exists(folder + "tokenizer.json")) GTEST_SKIP() << "../shared/seedling/out is not there";
  std::vector<std::string> warnings;
  auto data =
      read_tokenizer_json(read_file(folder + "tokenizer.json"), read_file(folder + "tokenizer_config.json"), warnings);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->pre, "qwen2");
  const auto tokenizer = Tokenizer::create(std::move(*data));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->size(), 4096u);
  EXPECT_TRUE(tokenizer->add_bos());
  EXPECT_EQ(tokenizer->bos(), 4093);

  const nlohmann::json golden = read_golden("seedling-golden.json");
  for (const nlohmann::json &prompt : golden["prompts"]) {
    Ids expected = prompt["tokens"].get<Ids>();
    if (expected.front() == tokenizer->bos()) expected.erase(expected.begin());
    EXPECT_EQ(tokenizer->encode(prompt["text"].get<std::string>(), SpecialTokens::kParse), expected);
  }
  EXPECT_EQ(tokenizer->decode(golden["greedy"]["tokens"].get<Ids>()), golden["greedy"]["text"].get<std::string>());
  const auto tokens = golden["perplexity"]["tokens"].get<Ids>();
  auto ids = tokenizer->encode(golden["perplexity"]["text"].get<std::string>(), SpecialTokens::kParse);
  ASSERT_TRUE(ids) << ids.error().message;
  ASSERT_GE(ids->size(), tokens.size());
  ids->resize(tokens.size());
  EXPECT_EQ(*ids, tokens);
}

}  // namespace
}  // namespace bonsai::text
