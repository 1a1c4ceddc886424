// What the tests of grammars say about texts.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/base/utf8.h"
#include "core/grammar/grammar.h"

namespace bonsai::grammar {

inline Grammar gbnf(std::string_view text) {
  auto grammar = Grammar::from_gbnf(text);
  if (!grammar) throw std::runtime_error(grammar.error().message);
  return *std::move(grammar);
}

inline Grammar json_schema(std::string_view json) {
  auto grammar = Grammar::from_json_schema(json);
  if (!grammar) throw std::runtime_error(grammar.error().message);
  return *std::move(grammar);
}

inline void expect_sentences(const Grammar &grammar, std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) EXPECT_TRUE(grammar.matches(text)) << bonsai::quoted(text);
}
inline void expect_none(const Grammar &grammar, std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) EXPECT_FALSE(grammar.matches(text)) << bonsai::quoted(text);
}

inline std::string message_of(const Result<Grammar> &result) {
  return result ? "it is accepted" : result.error().message;
}

}  // namespace bonsai::grammar
