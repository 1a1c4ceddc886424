// Grammars that a model's text has to follow.
#pragma once

#include <memory>
#include <string_view>

#include "core/base/result.h"
#include "core/grammar/automaton.h"

namespace bonsai::grammar {

// Immutable; copies share the compiled automaton.
class Grammar {
 public:
  // From llama.cpp's notation, see gbnf.h. Errors: one line, as of parse_gbnf() and Automaton::compile().
  static Result<Grammar> from_gbnf(std::string_view text);
  // From a JSON schema, see json_schema.h. Errors: one line that names keyword and place.
  static Result<Grammar> from_json_schema(std::string_view json);
  // Of texts that satisfy the JSON schema `answer`, and of calls of tools in its place: one or several lines of
  // "<tool_call>", a JSON text that satisfies `call`, "</tool_call>". Errors: those of both.
  static Result<Grammar> from_answer_or_calls(std::string_view answer, std::string_view call);

  // Whether all of `text` is a sentence.
  bool matches(std::string_view text) const;

  const std::shared_ptr<const Automaton> &automaton() const { return automaton_; }

 private:
  explicit Grammar(Automaton automaton);
  std::shared_ptr<const Automaton> automaton_;
};

}  // namespace bonsai::grammar
