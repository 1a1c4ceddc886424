// Vocabularies for the tests: a small one with every kind of token, and Qwen3's where it is.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/grammar/vocabulary.h"

namespace bonsai::grammar {

// The 256 bytes, what JSON likes to write in one token, words of several scripts and cuts through their characters; the
// last token ends a text, the one before is never allowed.
inline std::shared_ptr<const Vocabulary> small_vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(std::string(1, static_cast<char>(byte)));
  for (const char *token : {"{\"",
                            "\":",
                            "\": ",
                            "\": \"",
                            "\",",
                            "\", \"",
                            "\",\"",
                            "\"}",
                            "\"]",
                            "}}",
                            "]}",
                            "[[",
                            "[\"",
                            "{}",
                            "[]",
                            "},{",
                            "}, {",
                            ",\n",
                            "{\n",
                            "  ",
                            "    ",
                            "\n  ",
                            "\n    ",
                            "\n      \"",
                            "true",
                            "false",
                            "null",
                            "tru",
                            "als",
                            "12",
                            "100",
                            "-1",
                            ".5",
                            "0.",
                            "1e",
                            "e+",
                            "name",
                            "age",
                            "na",
                            "me\":",
                            "Ada",
                            "hello",
                            " world",
                            "the",
                            " the",
                            "\u00e9t\u00e9",
                            "\u4e16\u754c",
                            "\u4e16\xE7",
                            "\x95\x8C",
                            "\xF0\x9F",
                            "\x98\x80",
                            "\U0001F600",
                            "\\n",
                            "\\u",
                            "\\\"",
                            "\\u00",
                            "00e9",
                            "d83d",
                            "\\ude00",
                            "\t",
                            "\n\n",
                            "\\\\",
                            "a\"",
                            "x\":[",
                            "\x7F",
                            "~\x7F",
                            "2024-02-",
                            "29",
                            "-",
                            "T",
                            ":00Z",
                            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                            "((",
                            "))",
                            ")(",
                            "+("})
    tokens.emplace_back(token);
  tokens.emplace_back();
  tokens.emplace_back();
  const auto end = static_cast<int32_t>(tokens.size() - 1);
  return std::make_shared<const Vocabulary>(std::move(tokens), std::vector<int32_t>{end});
}

inline std::string qwen3_path() { return std::string(BONSAI_SHARED_DATA) + "/qwen3-vocab.gguf"; }

// Precondition: the file is there.
inline std::shared_ptr<const Vocabulary> qwen3_vocabulary() {
  static const auto vocabulary = [] {
    const auto file = gguf::File::open(qwen3_path());
    const auto tokenizer = text::Tokenizer::create(text::read_tokenizer(*file).value());
    return std::make_shared<const Vocabulary>(*tokenizer, 151936);
  }();
  return vocabulary;
}

}  // namespace bonsai::grammar
