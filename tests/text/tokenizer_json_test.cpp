#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/text/tiny_json.h"

namespace bonsai::text {
namespace {

using Json = nlohmann::json;

// For documents that need no warning.
Result<TokenizerData> read(std::string_view json, std::string_view config) {
  std::vector<std::string> warnings;
  auto data = read_tokenizer_json(json, config, warnings);
  EXPECT_TRUE(warnings.empty()) << warnings.front();
  return data;
}

std::string error_of(const Json &document, std::string_view config = "") {
  const auto data = read(document.dump(), config);
  return data ? "no error" : data.error().message;
}

std::string error_of_text(std::string_view text, std::string_view config = "") {
  const auto data = read(text, config);
  return data ? "no error" : data.error().message;
}

TEST(TokenizerJson, SaysWhatTheVocabularySays) {
  const auto data = read(tiny_json().dump(), "");
  ASSERT_TRUE(data) << data.error().message;
  TokenizerData expected = tiny_tokenizer_data();
  expected.tokens.pop_back();  // padding is not in the file
  expected.types.pop_back();
  EXPECT_EQ(data->tokens, expected.tokens);
  EXPECT_EQ(data->types, expected.types);
  EXPECT_EQ(data->merges, expected.merges);
  EXPECT_EQ(data->pre, "qwen2");
  EXPECT_EQ(data->bos, std::nullopt);
  EXPECT_FALSE(data->add_bos);
  EXPECT_TRUE(Tokenizer::create(*data));
}

TEST(TokenizerJson, MergesMayBePairs) {
  Json document = tiny_json();
  Json pairs = Json::array();
  for (const Json &merge : document["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    pairs.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  document["model"]["merges"] = pairs;
  const auto data = read(document.dump(), "");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->merges, tiny_tokenizer_data().merges);
}

TEST(TokenizerJson, MergesMayBeginAsMergesTxtDoes) {
  Json document = tiny_json();
  Json &merges = document["model"]["merges"];
  merges.insert(merges.begin(), "#version: 0.2");
  std::vector<std::string> warnings;
  const auto data = read_tokenizer_json(document.dump(), "", warnings);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->merges, tiny_tokenizer_data().merges);
}

TEST(TokenizerJson, ATruncationIsLeftOutWithAWarning) {
  Json document = tiny_json();
  document["truncation"] = {{"max_length", 4}};
  std::vector<std::string> warnings;
  ASSERT_TRUE(read_tokenizer_json(document.dump(), "", warnings));
  EXPECT_EQ(warnings,
            std::vector<std::string>{"tokenizer.json: truncation is left out: texts keep all of their tokens"});
}

TEST(TokenizerJson, HolesBecomeUnusedTokens) {
  Json document = tiny_json();
  document["added_tokens"].push_back({{"id", 270}, {"content", "<far>"}, {"special", true}});
  const auto data = read(document.dump(), "");
  ASSERT_TRUE(data) << data.error().message;
  ASSERT_EQ(data->tokens.size(), 271u);
  EXPECT_EQ(data->tokens[269], "[PAD269]");
  EXPECT_EQ(data->types[269], 5);
  EXPECT_EQ(data->tokens[270], "<far>");
  EXPECT_EQ(data->types[270], 3);
}

TEST(TokenizerJson, AHoleGetsASpellingThatNoOtherTokenHas) {
  Json document = tiny_json();
  document["added_tokens"].push_back({{"id", 270}, {"content", "[PAD269]"}, {"special", true}});
  document["added_tokens"].push_back({{"id", 271}, {"content", "[PAD269]_"}, {"special", true}});
  const auto data = read(document.dump(), "");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->tokens[269], "[PAD269]__");
  EXPECT_EQ(data->tokens[270], "[PAD269]");
  EXPECT_TRUE(Tokenizer::create(*data));
}

TEST(TokenizerJson, AnAddedTokenMayRepeatTheVocabularyAndDecidesItsType) {
  Json document = tiny_json();
  document["model"]["vocab"]["<|im_end|>"] = kImEnd;
  const auto data = read(document.dump(), "");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->types[kImEnd], 3);
}

TEST(TokenizerJson, TheConfigurationNamesTheSpecialTokens) {
  const auto data = read(tiny_json().dump(), R"({
      "bos_token": "<|endoftext|>", "eos_token": {"content": "<|im_end|>", "lstrip": false}, "pad_token": null,
      "add_bos_token": true, "chat_template": "{{ x }}"})");
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->bos, kEndOfText);
  EXPECT_EQ(data->eos, kImEnd);
  EXPECT_EQ(data->pad, std::nullopt);
  EXPECT_TRUE(data->add_bos);
  EXPECT_EQ(data->chat_template, "{{ x }}");
}

TEST(TokenizerJson, OfSeveralChatTemplatesTheDefaultOneCounts) {
  std::vector<std::string> warnings;
  auto data = read_tokenizer_json(tiny_json().dump(), R"({"chat_template": [
      {"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]})",
                                  warnings);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->chat_template, "plain");
  data = read_tokenizer_json(tiny_json().dump(), R"({"chat_template": [
      {"name": "tool_use", "template": "tools"}, {"name": "rag", "template": "documents"}]})",
                             warnings);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->chat_template, "");
  const std::string said = "tokenizer_config.json: chat_template: only the one named 'default' is used; left out: ";
  EXPECT_EQ(warnings, (std::vector{said + "'tool_use'", said + "'tool_use', 'rag'"}));
}

TEST(TokenizerJsonErrors, MalformedJsonIsOneLine) {
  EXPECT_EQ(error_of_text(""), "tokenizer.json: malformed JSON at byte 1");
  EXPECT_EQ(error_of_text("{\"model\": }"), "tokenizer.json: malformed JSON at byte 11");
  EXPECT_EQ(error_of_text("{\"a\": \"\xFF\"}"), "tokenizer.json: malformed JSON at byte 8");
  EXPECT_EQ(error_of_text("{\"a\": 1e999}"), "tokenizer.json: holds a number that no double can hold");
  EXPECT_EQ(error_of_text("[]"), "tokenizer.json: expected an object, found array");
  EXPECT_EQ(error_of(tiny_json(), "{"), "tokenizer_config.json: malformed JSON at byte 2");
  EXPECT_EQ(error_of(tiny_json(), "1"), "tokenizer_config.json: expected an object, found number");
}

TEST(TokenizerJsonErrors, DeepJsonIsAnErrorAndNoCrash) {
  constexpr size_t kDepth = 200000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  for (const std::string &text : {std::string(kDepth, '['), deep, "{\"post_processor\": " + deep + "}"})
    EXPECT_EQ(error_of_text(text), "tokenizer.json: nested more than 100 deep");
  EXPECT_EQ(error_of(tiny_json(), "{\"chat_template\": " + deep + "}"),
            "tokenizer_config.json: nested more than 100 deep");
}

TEST(TokenizerJsonErrors, OtherModelsAndSettingsAreRefused) {
  const auto with = [](const char *pointer, const Json &value) {
    Json document = tiny_json();
    document[Json::json_pointer(pointer)] = value;
    return error_of(document);
  };
  EXPECT_EQ(with("/model", 1), "tokenizer.json: model is missing or not an object");
  EXPECT_EQ(with("/model/type", "Unigram"), "tokenizer.json: model.type is 'Unigram'; expected 'BPE'");
  EXPECT_EQ(with("/model/ignore_merges", true), "tokenizer.json: model.ignore_merges is true, which is not supported");
  EXPECT_EQ(with("/model/end_of_word_suffix", "</w>"),
            "tokenizer.json: model.end_of_word_suffix is set, which is not supported");
  EXPECT_EQ(with("/normalizer", nullptr), "tokenizer.json: normalizer is missing; expected one of type 'NFC'");
  EXPECT_EQ(with("/normalizer/type", "NFKC"), "tokenizer.json: normalizer.type is 'NFKC'; expected 'NFC'");
  EXPECT_EQ(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\s+"),
            "tokenizer.json: pre_tokenizer splits by an unknown pattern: '\\s+'");
  EXPECT_EQ(with("/model/dropout", 0.1), "tokenizer.json: model.dropout is 0.1, which is not supported");
  EXPECT_EQ(with("/model/dropout", 0.0), "no error");
  for (const auto &[pointer, value] : {std::pair<const char *, Json>{"/pre_tokenizer", nullptr},
                                       {"/pre_tokenizer/type", "Whitespace"},
                                       {"/pre_tokenizer/pretokenizers", Json::array()},
                                       {"/pre_tokenizer/pretokenizers/0/behavior", "Removed"},
                                       {"/pre_tokenizer/pretokenizers/0/invert", true},
                                       {"/pre_tokenizer/pretokenizers/1/use_regex", true},
                                       {"/pre_tokenizer/pretokenizers/1/add_prefix_space", true}}) {
    EXPECT_EQ(with(pointer, value),
              "tokenizer.json: pre_tokenizer is not a sequence of Split (Isolated) and ByteLevel (no prefix space, no "
              "regex)")
        << pointer;
  }
}

TEST(TokenizerJsonErrors, VocabularyMergesAndAddedTokensMustHaveTheirShape) {
  const auto with = [](const char *pointer, const Json &value) {
    Json document = tiny_json();
    document[Json::json_pointer(pointer)] = value;
    return error_of(document);
  };
  EXPECT_EQ(with("/model/vocab", Json::array()),
            "tokenizer.json: model.vocab is missing or not an object of tokens and ids");
  EXPECT_EQ(with("/model/vocab/new", "x"), "tokenizer.json: model.vocab['new'] has an id that is not an integer");
  EXPECT_EQ(with("/model/vocab/new", 1.5), "tokenizer.json: model.vocab['new'] has an id that is not an integer");
  EXPECT_EQ(with("/model/vocab/new", -1), "tokenizer.json: model.vocab['new'] has the id -1; expected 0 to 1048575");
  EXPECT_EQ(with("/model/vocab/new", 1048576),
            "tokenizer.json: model.vocab['new'] has the id 1048576; expected 0 to 1048575");
  EXPECT_EQ(with("/model/vocab/new", UINT64_MAX),
            "tokenizer.json: model.vocab['new'] has the id 18446744073709551615; expected 0 to 1048575");
  EXPECT_EQ(with("/model/vocab/new", kAb), "tokenizer.json: model.vocab['new'] has the id 256, which is 'ab' already");
  EXPECT_EQ(with("/model/merges", nullptr), "tokenizer.json: model.merges is missing or not an array");
  for (const Json &merge : {Json(1), Json({"a"}), Json({"a", 1}), Json({"a", "b", "c"})}) {
    EXPECT_EQ(with("/model/merges/1", merge),
              "tokenizer.json: model.merges[1] is neither a string nor a pair of strings");
  }
  EXPECT_EQ(with("/model/merges/1", tiny_json()["model"]["merges"][0]),
            "tokenizer.json: model.merges[1] is 'b c', which is there before");
  EXPECT_EQ(with("/added_tokens", "x"), "tokenizer.json: added_tokens is not an array");
  EXPECT_EQ(with("/added_tokens/0", "x"), "tokenizer.json: added_tokens[0] is not an object with an id and a content");
  EXPECT_EQ(with("/added_tokens/0/content", 1),
            "tokenizer.json: added_tokens[0] is not an object with an id and a content");
  EXPECT_EQ(with("/added_tokens/0/id", kAb), "tokenizer.json: added_tokens[0] has the id 256, which is 'ab' already");
  EXPECT_EQ(with("/added_tokens/1/lstrip", true),
            "tokenizer.json: added_tokens[1].lstrip is true, which is not supported");
}

TEST(TokenizerJsonErrors, TokensOfNormalizedTextsMustBeNormal) {
  Json document = tiny_json();
  Json &token = document["added_tokens"].back();
  token["normalized"] = true;
  token["content"] = "caf\u00e9";
  EXPECT_EQ(error_of(document), "no error");
  token["content"] = "cafe\u0301";
  EXPECT_NE(error_of(document).find(", which is looked for in normalized texts, and not itself in NFC"),
            std::string::npos)
      << error_of(document);
  token["normalized"] = false;
  EXPECT_EQ(error_of(document), "no error");
}

// A template's names are not always those of the tokens that it puts.
TEST(TokenizerJsonErrors, TemplatesMustPutTheTokensThatTheyName) {
  Json document = tiny_json();
  const Json &token = document["added_tokens"][0];
  const auto name = token["content"].get<std::string>();
  Json &step = document["post_processor"];
  step = {{"type", "TemplateProcessing"},
          {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", name}}}}}},
          {"special_tokens", {{name, {{"id", name}, {"ids", {token["id"]}}}}}}};
  EXPECT_EQ(error_of(document), "no error");
  for (const Json &ids : {Json({0}), Json({token["id"], 0}), Json::array()}) {
    step["special_tokens"][name]["ids"] = ids;
    EXPECT_EQ(error_of(document), "tokenizer.json: post_processor puts other tokens for '" + name +
                                      "' than that one, " + token["id"].dump());
  }
}

TEST(TokenizerJsonErrors, TheConfigurationMustNameTokensThatExist) {
  EXPECT_EQ(error_of(tiny_json(), R"({"eos_token": "<eos>"})"),
            "tokenizer_config.json: eos_token is '<eos>', which is not in the vocabulary");
  EXPECT_EQ(error_of(tiny_json(), R"({"bos_token": 1})"), "tokenizer_config.json: bos_token is not a token");
  EXPECT_EQ(error_of(tiny_json(), R"({"pad_token": {"id": 1}})"), "tokenizer_config.json: pad_token is not a token");
  for (const char *chat_template : {"1", "[1]", R"([{"name": "default"}])", R"([{"template": "x"}])"}) {
    EXPECT_EQ(error_of(tiny_json(), fmt::format(R"({{"chat_template": {}}})", chat_template)),
              "tokenizer_config.json: chat_template is neither a string nor a list of named templates");
  }
}

}  // namespace
}  // namespace bonsai::text
