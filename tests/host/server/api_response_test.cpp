// What clients get, byte for byte where they depend on it.
#include "host/server/api_response.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/host/engine/seedling.h"

namespace bonsai::server {
namespace {

TEST(ApiResponse, IsOneLineForEveryClient) {
  EXPECT_EQ(to_line("a\xC2\x85\xE2\x80\xA8\xE2\x80\xA9z\n"), R"("a\u0085\u2028\u2029z\n")");
  EXPECT_EQ(to_line("\xC2\x84\xE2\x80\xA7\xE2\x80"), "\"\xC2\x84\xE2\x80\xA7\xEF\xBF\xBD\"") << "others stay";
}

// Moving what comes behind for each of them would take hours.
TEST(ApiResponse, MayHaveManyLineEnds) {
  std::string text, escaped;
  for (int i = 0; i < 1'500'000; ++i) {
    text += "\xE2\x80\xA8";
    escaped += "\\u2028";
  }
  EXPECT_TRUE(to_line(text) == "\"" + escaped + "\"");
}

// The digits that a float32 has, and no more.
TEST(ApiResponse, EmbeddingsHaveAFloatsDigits) {
  EXPECT_EQ(embedding_json(std::vector<float>{0.1f, -0.126334f, 1.0f}, 2, false),
            R"({"object":"embedding","index":2,"embedding":[0.1,-0.126334,1.0]})");
}

// Places of logprobs: a special token, and two that only begin a character.
class TokensWithoutText : public testing::Test {
 protected:
  const Engine engine_ = load_seedling();
  const int32_t special_ = engine_.tokenize("<|im_start|>").at(0);
  const int32_t begins_e_ = engine_.tokenize("\u00e9").at(0), begins_dash_ = engine_.tokenize("\u2013").at(0);
  const std::vector<LogProb> likeliest_ = {{special_, -0.5f}, {begins_e_, -2.0f}, {begins_dash_, -3.0f}};
  const std::vector<TokenLogProbs> places_ = {{likeliest_[0], likeliest_}, {likeliest_[1], likeliest_}};
};

TEST_F(TokensWithoutText, HaveNamesOfTheirOwnInCompletions) {
  Generation generation;
  generation.logprobs = places_;
  const Json json = completion_logprobs_json(engine_, generation, 3, nullptr, {});
  EXPECT_EQ(json["tokens"], (Json{"<|im_start|>", "bytes:\\xc3"}));
  const Json top = {{"<|im_start|>", -0.5}, {"bytes:\\xc3", -2.0}, {"bytes:\\xe2", -3.0}};
  EXPECT_EQ(json["top_logprobs"][0], top);
  EXPECT_EQ(json["text_offset"], (Json{0, 0})) << "special tokens do not show in the text";
}

// But in an echo they are spelled out, unless they are not in it.
TEST_F(TokensWithoutText, CountAsFarAsTheEchoHasThem) {
  Generation generation;
  generation.logprobs = places_;
  Echo echo = {.text = "<|im_start|><|im_start|>", .tokens = {special_, special_, begins_e_}};
  Json json = completion_logprobs_json(engine_, generation, 1, &echo, places_);
  EXPECT_EQ(json["token_logprobs"], (Json{nullptr, -0.5, -2.0, -0.5, -2.0}));
  EXPECT_EQ(json["top_logprobs"][0], nullptr);
  EXPECT_EQ(json["top_logprobs"][1], (Json{{"<|im_start|>", -0.5}}));
  EXPECT_EQ(json["text_offset"], (Json{0, 12, 24, 25, 25}));
  echo.n_hidden = 1;
  EXPECT_EQ(completion_logprobs_json(engine_, generation, 1, &echo, places_)["text_offset"], (Json{0, 0, 12, 13, 13}));
}

// Offsets are those of the text that clients get, in which stray bytes are characters, too.
TEST_F(TokensWithoutText, CountAsCharactersWhereTheirBytesAreStray) {
  const int32_t continues_e = engine_.tokenize("\u00e9").at(1), x = engine_.tokenize("x").at(0);
  Echo echo;
  echo.tokens = {continues_e, begins_e_, continues_e, continues_e, begins_e_, x, begins_dash_, x};
  echo.tokens.insert(echo.tokens.end(), 6, continues_e);
  echo.tokens.insert(echo.tokens.end(), {x, begins_e_, x});
  echo.text = engine_.detokenize(echo.tokens);
  ASSERT_EQ(to_line(echo.text), "\"\uFFFD\u00e9\uFFFD\uFFFDx\uFFFDx\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDx\uFFFDx\"");
  const Json json = completion_logprobs_json(engine_, {}, 0, &echo, {});
  EXPECT_EQ(json["text_offset"], (Json{0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
}

// A text to stop at takes what it has begun with away: tokens that begin behind what is left are not told of, but the
// last of the text may go on there.
TEST_F(TokensWithoutText, AreToldOfAsFarAsTheTextGoes) {
  const auto told = [&](const std::string &all, const std::string &left, FinishReason finish) {
    Generation generation;
    generation.text = left;
    generation.finish = finish;
    for (const int32_t token : engine_.tokenize(all)) generation.logprobs.push_back({{token, -1.0f}, {}});
    generation.end_logprobs = TokenLogProbs{{special_, -1.0f}, {}};
    const size_t n = told_logprobs(engine_, generation).size();
    const Json json = completion_logprobs_json(engine_, generation, 1, nullptr, {});
    EXPECT_EQ(json["tokens"].size(), n + (finish != FinishReason::kStopString)) << left;
    return n;
  };
  const size_t n_all = engine_.tokenize("Once upon a time").size();
  ASSERT_EQ(engine_.tokenize("\u00e9x").size(), 3u);
  EXPECT_EQ(told("Once upon a time", "Once upon a time", FinishReason::kLength), n_all);
  EXPECT_EQ(told("Once upon a time", "Once", FinishReason::kLength), n_all) << "it was no text to stop at";
  EXPECT_EQ(told("Once upon a time", "Once upon a time", FinishReason::kStopString), n_all);
  EXPECT_EQ(told("Once upon a time", "Once upon a ti", FinishReason::kStopString), n_all);
  EXPECT_EQ(told("Once upon a time", "", FinishReason::kStopString), 0u);
  EXPECT_EQ(told("\u00e9x", "\u00e9", FinishReason::kStopString), 2u) << "a character of two tokens";
  EXPECT_EQ(told("x\u00e9", "x", FinishReason::kStopString), 1u);
}

TEST_F(TokensWithoutText, HaveBytesInChat) {
  const Json content = chat_logprobs_json(engine_, places_, 3)["content"];
  EXPECT_EQ(content[0]["token"], "<|im_start|>");
  EXPECT_EQ(content[0]["bytes"].size(), 12u);
  EXPECT_EQ(content[1]["bytes"], Json({0xC3}));
  EXPECT_EQ(content[1]["top_logprobs"][0]["token"], "<|im_start|>");
}

}  // namespace
}  // namespace bonsai::server
