#include "host/engine/constraint.h"

#include <algorithm>
#include <utility>

#include "core/grammar/grammar.h"
#include "host/sampling/token_mask.h"

namespace bonsai::host {

std::shared_ptr<grammar::TokenMasks> Constraints::compile(const GenerateOptions &options,
                                                          const text::Tokenizer &tokenizer, uint32_t size) {
  if (options.grammar.empty() && options.json_schema.empty()) return nullptr;
  if (!options.grammar.empty() && !options.json_schema.empty())
    throw EngineError(ErrorKind::kInvalidArgument, "a grammar and a JSON schema are both given: choose one");
  const bool is_schema = options.grammar.empty();
  const std::string &text = is_schema ? options.json_schema : options.grammar;
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry &entry) {
    return entry.is_schema == is_schema && entry.text == text;
  });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return entries_.front().masks;
  }
  const auto made = is_schema ? grammar::Grammar::from_json_schema(text) : grammar::Grammar::from_gbnf(text);
  if (!made) throw EngineError(ErrorKind::kInvalidArgument, made.error().message);
  if (!vocabulary_) vocabulary_ = std::make_shared<const grammar::Vocabulary>(tokenizer, size);
  entries_.push_front({is_schema, text, std::make_shared<grammar::TokenMasks>(made->automaton(), vocabulary_)});
  if (entries_.size() > kMostKept) entries_.pop_back();
  return entries_.front().masks;
}

Constraint::Constraint(std::shared_ptr<grammar::TokenMasks> masks)
    : matcher_(masks), mask_(masks->vocabulary().n_words()) {}

void Constraint::restrict(std::span<float> logits) {
  if (!try_restrict(logits))
    throw EngineError(
        ErrorKind::kInvalidArgument,
        "the grammar leaves no token to go on with: its rules lie too deep in one another here, or can be "
        "read in too many ways");
}

bool Constraint::try_restrict(std::span<float> logits) {
  const std::span<const uint32_t> allowed = mask();
  if (allowed.empty()) return false;
  apply_mask(allowed, logits);
  return true;
}

std::span<const uint32_t> Constraint::mask() {
  if (!matcher_.mask(mask_)) return {};
  return mask_;
}

void Constraint::go_on(int32_t token) {
  if (!accept(token))
    throw EngineError(ErrorKind::kInvalidArgument, "the grammar cannot go on: it can be read in too many ways here");
}

bool Constraint::accept(int32_t token) { return matcher_.accept(token); }

}  // namespace bonsai::host
