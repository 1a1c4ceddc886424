#include "core/grammar/grammar.h"

#include <utility>

#include "core/grammar/expression.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/json_schema.h"
#include "core/grammar/threads.h"

namespace bonsai::grammar {
namespace {

Result<Automaton> compile(const Result<RuleSet> &rules) {
  if (!rules) return tl::unexpected(rules.error());
  return Automaton::compile(*rules);
}

}  // namespace

Grammar::Grammar(Automaton automaton) : automaton_(std::make_shared<const Automaton>(std::move(automaton))) {}

Result<Grammar> Grammar::from_gbnf(std::string_view text) {
  auto automaton = compile(parse_gbnf(text));
  if (!automaton) return tl::unexpected(automaton.error());
  return Grammar(*std::move(automaton));
}

Result<Grammar> Grammar::from_json_schema(std::string_view json) {
  auto automaton = compile(parse_json_schema(json));
  if (!automaton) return tl::unexpected(automaton.error());
  return Grammar(*std::move(automaton));
}

Result<Grammar> Grammar::from_answer_or_calls(std::string_view answer, std::string_view call) {
  auto rules = parse_json_schema(answer);
  if (!rules) return tl::unexpected(rules.error());
  auto calls = parse_json_schema(call);
  if (!calls) return fail("calls of tools: {}", calls.error().message);
  const Expression one_call =
      sequence({literal("<tool_call>\n"), grammar::call(append(*std::move(calls), *rules)), literal("\n</tool_call>")});
  Expression more = repeat(sequence({literal("\n"), one_call}), 0, Expression::kUnbounded);
  rules->rules.push_back(
      {.name = "answer or calls", .body = choice({grammar::call(rules->root), sequence({one_call, std::move(more)})})});
  rules->root = static_cast<uint32_t>(rules->rules.size() - 1);
  auto automaton = Automaton::compile(*rules);
  if (!automaton) return tl::unexpected(automaton.error());
  return Grammar(*std::move(automaton));
}

bool Grammar::matches(std::string_view text) const {
  if (text.empty()) return automaton_->may_be_empty();
  Stacks stacks;
  Threads here, next;
  here.list.push_back({automaton_->root(), Stacks::kBottom});
  for (const char byte : text) {
    if (!step(*automaton_, stacks, here, static_cast<uint8_t>(byte), next)) return false;
    std::swap(here, next);
  }
  return here.ended;
}

}  // namespace bonsai::grammar
