// The tiny tokenizer as Hugging Face would write it.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/text/tiny_tokenizer.h"

namespace bonsai::text {

// A tokenizer.json that says what tiny_tokenizer_data() says.
inline nlohmann::json tiny_json() {
  using Json = nlohmann::json;
  const TokenizerData data = tiny_tokenizer_data();
  Json vocab = Json::object(), added = Json::array();
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    if (data.types[id] == 1) vocab[data.tokens[id]] = id;
    if (data.types[id] != 3 && data.types[id] != 4) continue;
    added.push_back({{"id", id}, {"content", data.tokens[id]}, {"special", data.types[id] == 3}});
  }
  const Json split = {
      {"type", "Split"},
      {"pattern",
       {{"Regex",
         R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
      {"behavior", "Isolated"},
      {"invert", false}};
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"added_tokens", added},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", data.merges}}}};
}

}  // namespace bonsai::text
