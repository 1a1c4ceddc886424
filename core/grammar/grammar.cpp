#include "core/grammar/grammar.h"

#include <utility>

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
