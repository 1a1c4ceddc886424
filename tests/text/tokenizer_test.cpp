// What a tokenizer promises whatever its vocabulary; the vocabularies of real models are in golden_test.cpp.
#include "core/text/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/text/nfc.h"
#include "tests/text/random_text.h"
#include "tests/text/tiny_tokenizer.h"

namespace bonsai::text {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer tiny_tokenizer() {
  auto tokenizer = Tokenizer::create(tiny_tokenizer_data());
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

std::string error_of(TokenizerData data) {
  const auto tokenizer = Tokenizer::create(std::move(data));
  return tokenizer ? "no error" : tokenizer.error().message;
}

TEST(Tokenizer, MergesWithinWordsOnly) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.encode("abc", SpecialTokens::kParse), (Ids{'a', kBc}));
  EXPECT_EQ(tokenizer.encode("ab a", SpecialTokens::kParse), (Ids{kAb, kSpaceA}));
  EXPECT_EQ(tokenizer.encode("aaaaa", SpecialTokens::kParse), (Ids{kAaaa, 'a'}));
  EXPECT_EQ(tokenizer.encode("1a", SpecialTokens::kParse), (Ids{'1', 'a'}));
  EXPECT_EQ(tokenizer.encode("", SpecialTokens::kParse), Ids{});
}

TEST(Tokenizer, NormalizesBeforeItSplits) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.encode("e\u0301", SpecialTokens::kParse), (Ids{0xC3, 0xA9}));
}

TEST(Tokenizer, ACombiningMarkDoesNotUndoTheTokenBeforeIt) {
  const Tokenizer tokenizer = tiny_tokenizer();
  const Ids mark = *tokenizer.encode("\u0338", SpecialTokens::kPlain);
  Ids expected{kImEnd};
  expected.insert(expected.end(), mark.begin(), mark.end());
  EXPECT_EQ(tokenizer.encode("<|im_end|>\u0338", SpecialTokens::kParse), expected);
  EXPECT_EQ(*tokenizer.encode(">\u0338", SpecialTokens::kParse), *tokenizer.encode("\u226F", SpecialTokens::kPlain));
}

TEST(Tokenizer, AddsNothingInFront) {
  TokenizerData data = tiny_tokenizer_data();
  data.add_bos = true;
  const auto tokenizer = Tokenizer::create(std::move(data));
  EXPECT_TRUE(tokenizer->add_bos());
  EXPECT_EQ(tokenizer->encode("a", SpecialTokens::kParse), Ids{'a'});
}

TEST(Tokenizer, ControlTokensAreTokensOnlyWhereAsked) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.encode("a<|im_end|>b", SpecialTokens::kParse), (Ids{'a', kImEnd, 'b'}));
  const std::string text = "a<|im_end|>b";
  EXPECT_EQ(tokenizer.encode(text, SpecialTokens::kPlain), Ids(text.begin(), text.end()));
  EXPECT_EQ(tokenizer.encode("<|im_end|><|im_start|>", SpecialTokens::kParse), (Ids{kImEnd, kImStart}));
}

TEST(Tokenizer, UserDefinedTokensAreAlwaysTokensTheLongestFirst) {
  const Tokenizer tokenizer = tiny_tokenizer();
  for (const auto special : {SpecialTokens::kParse, SpecialTokens::kPlain}) {
    EXPECT_EQ(tokenizer.encode("<think>a", special), (Ids{kThink, 'a'}));
    EXPECT_EQ(tokenizer.encode("<think>ing", special), Ids{kThinking});
  }
}

TEST(Tokenizer, UnusedTokensAreNeverFoundInText) {
  const std::string text = "[PAD267]";
  EXPECT_EQ(tiny_tokenizer().encode(text, SpecialTokens::kParse), Ids(text.begin(), text.end()));
}

TEST(Tokenizer, InvalidUtf8IsAnErrorWithItsOffset) {
  const Tokenizer tokenizer = tiny_tokenizer();
  const auto error = [&](std::string_view text) {
    const auto ids = tokenizer.encode(text, SpecialTokens::kParse);
    return ids ? "no error" : ids.error().message;
  };
  EXPECT_EQ(error("\xFF"), "invalid UTF-8 at byte offset 0");
  EXPECT_EQ(error("ab\u00E9\xC3"), "invalid UTF-8 at byte offset 4");
  EXPECT_EQ(error("a\xED\xA0\x80"), "invalid UTF-8 at byte offset 1") << "a surrogate";
  EXPECT_EQ(error("abc\xC0\xAF"), "invalid UTF-8 at byte offset 3") << "an overlong form";
  EXPECT_EQ(error(std::string(100000, 'a') + "\x80"), "invalid UTF-8 at byte offset 100000");
}

TEST(Tokenizer, DecodeShowsControlTokensOnlyWhenAsked) {
  const Tokenizer tokenizer = tiny_tokenizer();
  const Ids ids = {kImStart, 'a', kThink, kSpaceA, kPad267, kImEnd};
  EXPECT_EQ(tokenizer.decode(ids), "a<think> a");
  EXPECT_EQ(tokenizer.decode(ids, true), "<|im_start|>a<think> a[PAD267]<|im_end|>");
}

// Promise: what a chat's answer is read by is in its text; and a user's words still cannot forge it.
TEST(Tokenizer, DecodeShowsTheTagsOfAnswersAlsoWhereTheyAreControlTokens) {
  TokenizerData data = tiny_tokenizer_data();
  data.types[kThink] = 3;
  for (const char *tag : {"</think>", "<tool_call>", "</tool_call>"}) {
    data.tokens.emplace_back(tag);
    data.types.push_back(3);
  }
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  const Ids ids = {kImStart, kThink, 'a', 268, 269, 270, kImEnd};
  EXPECT_EQ(tokenizer->decode(ids), "<think>a</think><tool_call></tool_call>");
  EXPECT_EQ(*tokenizer->encode("<think>", SpecialTokens::kParse), Ids{kThink});
  EXPECT_EQ(tokenizer->encode("<think>", SpecialTokens::kPlain)->size(), 7u);
}

TEST(Tokenizer, IdsOutsideTheVocabularyDecodeToNothing) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.decode(Ids{-1, 'a', 268, INT32_MAX, INT32_MIN, 'b'}), "ab");
  EXPECT_FALSE(tokenizer.is_control(-1));
  EXPECT_FALSE(tokenizer.is_control(268));
  EXPECT_FALSE(tokenizer.is_end_of_generation(268));
  EXPECT_EQ(tokenizer.spelling(268), "");
}

TEST(Tokenizer, ANormalTokenOutsideTheByteAlphabetDecodesAsItIs) {
  TokenizerData data = tiny_tokenizer_data();
  data.tokens.push_back("two words");
  data.types.push_back(1);
  EXPECT_EQ(Tokenizer::create(std::move(data))->decode(Ids{268, kSpaceA}), "two words a");
}

TEST(Tokenizer, AnswersQuestionsAboutItsTokens) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.size(), 268u);
  EXPECT_EQ(tokenizer.bos(), kEndOfText);
  EXPECT_EQ(tokenizer.eos(), kImEnd);
  EXPECT_FALSE(tokenizer.add_bos());
  EXPECT_EQ(tokenizer.chat_template(), "{{ messages }}");
  EXPECT_EQ(tokenizer.find("<|im_start|>"), kImStart);
  EXPECT_EQ(tokenizer.find("\u0120a"), kSpaceA);
  EXPECT_EQ(tokenizer.find("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.spelling(kSpaceA), "\u0120a");
  EXPECT_TRUE(tokenizer.is_control(kImStart));
  EXPECT_FALSE(tokenizer.is_control(kThink));
}

Ids ends_of(const Tokenizer &tokenizer) {
  Ids result;
  for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.size()); ++id) {
    if (tokenizer.is_end_of_generation(id)) result.push_back(id);
  }
  return result;
}

TEST(Tokenizer, AGenerationEndsAtEosAtTheKnownNamesAndAtWhatTheFileAdds) {
  const auto ends = [](const TokenizerData &data) { return ends_of(*Tokenizer::create(data)); };
  TokenizerData data = tiny_tokenizer_data();
  EXPECT_EQ(ends(data), (Ids{kEndOfText, kImEnd}));
  data.more_eos = {kImStart};
  EXPECT_EQ(ends(data), (Ids{kEndOfText, kImStart, kImEnd}));
  data.more_eos = {};
  data.eos = 'z';
  EXPECT_EQ(ends(data), (Ids{'z', kEndOfText, kImEnd}));
  data.tokens[kThink] = "<|eot_id|>";
  EXPECT_EQ(ends(data), (Ids{'z', kEndOfText, kImEnd, kThink}));
}

// Promise: an answer ends whichever type a file gives to the token that ends it, and the token does not show in it.
TEST(Tokenizer, WhatEndsATextIsAControlTokenWhateverTheFileSays) {
  EXPECT_TRUE(tiny_tokenizer().warnings().empty());
  for (const int32_t type : {1, 4, 5}) {
    TokenizerData data = tiny_tokenizer_data();
    data.eos = std::nullopt;
    data.types[kImEnd] = data.types[kEndOfText] = type;
    const auto tokenizer = Tokenizer::create(std::move(data));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(ends_of(*tokenizer), (Ids{kEndOfText, kImEnd}));
    EXPECT_TRUE(tokenizer->is_control(kImEnd));
    EXPECT_EQ(tokenizer->decode(Ids{'a', kImEnd}), "a");
    EXPECT_EQ(tokenizer->encode("<|im_end|>", SpecialTokens::kParse), Ids{kImEnd});
    EXPECT_EQ(tokenizer->encode("<|im_end|>", SpecialTokens::kPlain)->size(), 10u);
    EXPECT_EQ(tokenizer->warnings(),
              std::vector<std::string>{"tokenizer.ggml.token_type has another type than control for '<|im_end|>', "
                                       "'<|endoftext|>', with which a text ends; taken as control"});
  }
}

// Else a user's words could forge it.
TEST(Tokenizer, WhatMergesMakeEndsATextAndStaysWhatItIs) {
  TokenizerData data = tiny_tokenizer_data();
  for (const char *token : {"[E", "[EO", "[EOT", "[EOT]"}) {
    data.tokens.emplace_back(token);
    data.types.push_back(1);
  }
  for (const char *merge : {"[ E", "[E O", "[EO T", "[EOT ]"}) data.merges.emplace_back(merge);
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(ends_of(*tokenizer), (Ids{kEndOfText, kImEnd, 271}));
  EXPECT_FALSE(tokenizer->is_control(271));
  EXPECT_TRUE(tokenizer->warnings().empty());
}

// Qwen's own tokenizer has them as user-defined tokens: no reason for a warning, or for other ids.
TEST(Tokenizer, WhatStandsBetweenFilesEndsATextAndKeepsItsType) {
  TokenizerData data = tiny_tokenizer_data();
  for (const char *name : {"<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}) {
    data.tokens.emplace_back(name);
    data.types.push_back(4);
  }
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(ends_of(*tokenizer), (Ids{kEndOfText, kImEnd, 268, 269, 270}));
  EXPECT_EQ(tokenizer->encode("<|file_sep|>", SpecialTokens::kPlain), Ids{270});
  EXPECT_TRUE(tokenizer->warnings().empty());
}

TEST(Tokenizer, DecodingWhatWasEncodedGivesTheNormalizedText) {
  const Tokenizer tokenizer = tiny_tokenizer();
  RandomText random(3);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random.text(10);
    const std::string normal = normalize_nfc(text);
    const auto plain = tokenizer.encode(text, SpecialTokens::kPlain);
    ASSERT_TRUE(plain) << plain.error().message;
    ASSERT_EQ(tokenizer.decode(*plain), normal) << "text " << i;
    const auto parsed = tokenizer.encode(text + "<|im_end|>\u0338" + text, SpecialTokens::kParse);
    ASSERT_EQ(tokenizer.decode(*parsed, true), normal + "<|im_end|>" + normalize_nfc("\u0338" + text)) << "text " << i;
  }
}

TEST(Tokenizer, ManyThreadsMayEncodeAtOnce) {
  const Tokenizer tokenizer = tiny_tokenizer();
  const std::string text = RandomText(4).text(2000);
  const auto expected = tokenizer.encode(text, SpecialTokens::kParse);
  std::vector<std::thread> threads;
  std::array<bool, 4> same{};
  for (bool &result : same) {
    threads.emplace_back([&] { result = *tokenizer.encode(text, SpecialTokens::kParse) == *expected; });
  }
  for (std::thread &thread : threads) thread.join();
  for (const bool result : same) EXPECT_TRUE(result);
}

TEST(Tokenizer, MovingKeepsItWhole) {
  Tokenizer first = tiny_tokenizer();
  const Tokenizer second = std::move(first);
  EXPECT_EQ(second.encode("ab<|im_end|>", SpecialTokens::kParse), (Ids{kAb, kImEnd}));
  EXPECT_EQ(second.find("ab"), kAb);
}

TEST(TokenizerErrors, TokensAndTypesMustAgree) {
  TokenizerData data = tiny_tokenizer_data();
  data.types.pop_back();
  EXPECT_EQ(error_of(data), "tokenizer.ggml.token_type has 267 elements; expected one for each of the 268 tokens");
  data = tiny_tokenizer_data();
  data.types[7] = -1;
  EXPECT_EQ(error_of(data), "tokenizer.ggml.token_type[7] is -1; expected 0 to 6");
  data.types[7] = 7;
  EXPECT_EQ(error_of(data), "tokenizer.ggml.token_type[7] is 7; expected 0 to 6");
}

// Promise: files that llama.cpp loads with a warning are loaded with one.
TEST(Tokenizer, TypesThatAreMissingAreNormal) {
  TokenizerData data = tiny_tokenizer_data();
  data.types.clear();
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  ASSERT_EQ(tokenizer->warnings().size(), 2u);
  EXPECT_EQ(tokenizer->warnings()[0], "tokenizer.ggml.token_type is missing or empty; every token is taken as normal");
  EXPECT_TRUE(tokenizer->warnings()[1].find("'<|im_end|>'") != std::string::npos) << tokenizer->warnings()[1];
  EXPECT_EQ(tokenizer->encode("ab<|im_end|>", SpecialTokens::kParse), (Ids{kAb, kImEnd}));
  EXPECT_EQ(tokenizer->decode(Ids{kThink}), "<think>");
}

TEST(Tokenizer, TypesBeyondTheTokensAreIgnored) {
  TokenizerData data = tiny_tokenizer_data();
  data.types.insert(data.types.end(), {7, 7});
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->warnings(), std::vector<std::string>{"tokenizer.ggml.token_type has 270 elements for 268 "
                                                            "tokens; the last 2 are ignored"});
}

TEST(Tokenizer, UndefinedTokensAreUnused) {
  TokenizerData data = tiny_tokenizer_data();
  data.types[kImStart] = data.types[kAb] = 0;
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->warnings(), std::vector<std::string>{"tokenizer.ggml.token_type is 0 (undefined) for 2 of the "
                                                            "268 tokens; taken as unused"});
  EXPECT_EQ(tokenizer->encode("ab", SpecialTokens::kParse), Ids{kAb}) << "merges make it all the same";
  EXPECT_EQ(tokenizer->decode(Ids{kAb, kImStart, kBc}), "bc");
  EXPECT_EQ(tokenizer->encode("<|im_start|>", SpecialTokens::kParse)->size(), 12u);
}

TEST(Tokenizer, EmptyTokensAreWhatNoTextGives) {
  TokenizerData data = tiny_tokenizer_data();
  data.tokens[kPad267] = data.tokens[kImStart] = data.tokens[kThinking] = "";
  data.types[kPad267] = 1;
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->warnings(),
            std::vector<std::string>{"tokenizer.ggml.tokens has 3 empty elements, which no text gives"});
  EXPECT_EQ(tokenizer->find(""), std::nullopt);
  EXPECT_EQ(tokenizer->encode("ab ab", SpecialTokens::kParse)->size(), 3u);
  EXPECT_EQ(tokenizer->decode(Ids{kPad267, kImStart, kAb, kThinking}, true), "ab");
}

TEST(TokenizerErrors, TokensMustBeUniqueUtf8AndCoverEveryByte) {
  TokenizerData data = tiny_tokenizer_data();
  data.tokens[kPad267] = "abc";
  EXPECT_EQ(error_of(data), "tokenizer.ggml.tokens[267] is 'abc', which is token 257 already");
  data.tokens[kPad267] = "\xFF\n";
  EXPECT_EQ(error_of(data), R"(tokenizer.ggml.tokens[267] is '\xff\x0a', which is not UTF-8)");
  data = tiny_tokenizer_data();
  data.tokens[' '] = "[x]";
  EXPECT_EQ(error_of(data), "tokenizer.ggml.tokens has no token for byte 0x20, spelled '\u0120'");
  data.tokens = {};
  data.types = {};
  data.bos = data.eos = data.pad = std::nullopt;
  EXPECT_EQ(error_of(data), "tokenizer.ggml.tokens has no token for byte 0x00, spelled '\u0100'");
}

TEST(TokenizerErrors, ASpecialTokenMayNotBeLong) {
  TokenizerData data = tiny_tokenizer_data();
  data.tokens[kThink] = std::string(256, 'x');
  data.tokens[kPad267] = std::string(257, 'y');  // is never looked for
  EXPECT_EQ(error_of(data), "no error");
  data.tokens[kThink] += 'x';
  EXPECT_EQ(error_of(data),
            "tokenizer.ggml.tokens[265] is a control or user-defined token of 257 bytes; expected at most 256");
}

TEST(TokenizerErrors, MergesMustJoinTokensIntoTokens) {
  const auto error_of_merge = [](const char *merge) {
    TokenizerData data = tiny_tokenizer_data();
    data.merges[2] = merge;
    return error_of(std::move(data));
  };
  EXPECT_EQ(error_of_merge("abx c"), "tokenizer.ggml.merges[2] is 'abx c', but there is no token 'abx'");
  EXPECT_EQ(error_of_merge("a bcx"), "tokenizer.ggml.merges[2] is 'a bcx', but there is no token 'bcx'");
  EXPECT_EQ(error_of_merge("b b"), "tokenizer.ggml.merges[2] is 'b b', but there is no token 'bb'");
  for (const char *merge : {"", " ", "ab", "ab ", " ab", "a  b", "a b c"}) {
    EXPECT_EQ(error_of_merge(merge), "tokenizer.ggml.merges[2] is '" + std::string(merge) +
                                         "'; expected two tokens with one space between them");
  }
}

// Promise: a file is not refused for the sake of a token that nothing asks for.
TEST(Tokenizer, IdsThatAreNoTokensAreIgnored) {
  TokenizerData data = tiny_tokenizer_data();
  data.bos = 268;
  data.eos = -1;
  data.more_eos = {5, 500};
  const auto tokenizer = Tokenizer::create(std::move(data));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->bos(), std::nullopt);
  EXPECT_EQ(tokenizer->eos(), std::nullopt);
  EXPECT_EQ(ends_of(*tokenizer), (Ids{5, kEndOfText, kImEnd}));
  const std::string is_ignored = " is no id below 268, the number of tokens; ignored";
  EXPECT_EQ(tokenizer->warnings(),
            (std::vector<std::string>{
                "tokenizer.ggml.bos_token_id" + is_ignored, "tokenizer.ggml.eos_token_id" + is_ignored,
                "tokenizer.ggml.eot_token_id, eom_token_id or an element of eos_token_ids" + is_ignored}));
}

TEST(TokenizerErrors, WhatATextIsToBeginOrEndWithMustBeAToken) {
  for (const std::optional<int32_t> id : {std::optional<int32_t>(), std::optional(268), std::optional(-1)}) {
    TokenizerData data = tiny_tokenizer_data();
    data.bos = id;
    data.add_bos = true;
    EXPECT_EQ(error_of(data),
              "tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is missing or no token's");
    data = tiny_tokenizer_data();
    data.eos = id;
    data.add_eos = true;
    EXPECT_EQ(error_of(data),
              "tokenizer.ggml.add_eos_token is true, but tokenizer.ggml.eos_token_id is missing or no token's");
  }
}

TEST(TokenizerErrors, ThePreTokenizerMustBeKnownAndTheTemplateUtf8) {
  TokenizerData data = tiny_tokenizer_data();
  data.pre = "llama-bpe";
  EXPECT_EQ(
      error_of(data),
      "tokenizer.ggml.pre is 'llama-bpe'; known pre-tokenizers are 'qwen2', 'deepseek-r1-qwen', 'f2llmv2', 'kormo'");
  data = tiny_tokenizer_data();
  data.chat_template = "ab\xFF";
  EXPECT_EQ(error_of(data), "tokenizer.chat_template is not UTF-8 at byte offset 2");
}

}  // namespace
}  // namespace bonsai::text
