#include "host/engine/constraint.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "core/grammar/grammar.h"
#include "host/sampling/token_mask.h"

namespace bonsai::host {

std::shared_ptr<grammar::TokenMasks> Constraints::compile(const GenerateOptions &options,
                                                          const text::Tokenizer &tokenizer, uint32_t size) {
  if (!options.call_schema.empty() && options.json_schema.empty())
    throw EngineError(ErrorKind::kInvalidArgument, "call_schema: expected with json_schema only");
  if (options.grammar.empty() && options.json_schema.empty()) return nullptr;
  if (!options.grammar.empty() && !options.json_schema.empty())
    throw EngineError(ErrorKind::kInvalidArgument, "a grammar and a JSON schema are both given: choose one");
  const Key key = key_of(options);
  std::promise<Masks> promise;
  std::unique_lock lock(mutex_);
  const auto known =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry &entry) { return entry.key == key; });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    const std::shared_future<Masks> masks = known->masks;
    lock.unlock();
    return masks.get();
  }
  entries_.push_front({key, promise.get_future().share()});
  if (entries_.size() > kMostKept) entries_.pop_back();
  lock.unlock();
  try {
    auto made = compile(key, tokenizer, size);
    promise.set_value(made);
    return made;
  } catch (const EngineError &) {  // kept, as it would be refused again after as much work, but not for long
    lock.lock();
    const auto refused =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry &entry) { return entry.key == key; });
    if (refused != entries_.end()) entries_.splice(entries_.end(), entries_, refused);
    lock.unlock();
    promise.set_exception(std::current_exception());
    throw;
  } catch (...) {
    lock.lock();
    std::erase_if(entries_, [&](const Entry &entry) { return entry.key == key; });
    lock.unlock();
    promise.set_exception(std::current_exception());
    throw;
  }
}

bool Constraints::knows(const GenerateOptions &options) const {
  if (options.grammar.empty() == options.json_schema.empty()) return true;  // both are refused unread
  const Key key = key_of(options);
  const std::lock_guard lock(mutex_);
  const auto known =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry &entry) { return entry.key == key; });
  return known != entries_.end() && known->masks.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Constraints::Key Constraints::key_of(const GenerateOptions &options) {
  const bool is_schema = options.grammar.empty();
  return {is_schema, is_schema ? options.json_schema : options.grammar, options.call_schema};
}

Constraints::Masks Constraints::compile(const Key &key, const text::Tokenizer &tokenizer, uint32_t size) {
  const auto made = !key.is_schema      ? grammar::Grammar::from_gbnf(key.text)
                    : key.calls.empty() ? grammar::Grammar::from_json_schema(key.text)
                                        : grammar::Grammar::from_answer_or_calls(key.text, key.calls);
  if (!made) throw EngineError(ErrorKind::kInvalidArgument, made.error().message);
  std::call_once(first_, [&] { vocabulary_ = std::make_shared<const grammar::Vocabulary>(tokenizer, size); });
  return std::make_shared<grammar::TokenMasks>(made->automaton(), vocabulary_);
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
