#include "host/engine/model_drafter.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/same_vocabulary.h"

namespace bonsai::host {
namespace {

// What the draft model throws is said to come from it.
template <class Action>
void as_draft_model(Action action) {
  try {
    action();
  } catch (const EngineError &error) {
    throw EngineError(error.kind(), fmt::format("draft model: {}", error.what()));
  }
}

}  // namespace

void check_same_vocabulary(const EngineState &target, const EngineState &draft) {
  const auto refuse = [](const std::string &what) {
    throw EngineError(ErrorKind::kInvalidArgument, "draft model: expected the model's vocabulary, found " + what);
  };
  const uint32_t expected = target.model.config.vocab, found = draft.model.config.vocab;
  if (found != expected) refuse(fmt::format("one of {} tokens instead of {}", found, expected));
  const std::string difference = text::first_difference(target.require_tokenizer(), draft.require_tokenizer());
  if (!difference.empty()) refuse(difference);
}

void ModelDrafter::begin(std::span<const int32_t> text) {
  if (text.size() >= draft_.engine().context()) return;
  as_draft_model([&] {
    catch_up(text);
    draft_.compute(cancel_);
  });
}

std::optional<Drafter::Evidence> ModelDrafter::evidence() {
  if (text_.length() >= draft_.engine().context()) return std::nullopt;
  return kModel;
}

void ModelDrafter::propose(uint32_t most, std::vector<int32_t> &tokens) {
  as_draft_model([&] { draft(std::min(most, draft_.engine().context() - text_.length()), tokens); });
}

void ModelDrafter::draft(uint32_t most, std::vector<int32_t> &tokens) {
  catch_up(text_.tokens());
  Continuation::Guess guess(continuation_);
  const SessionState::Ask ask = [&](const SelectionLimits &limits) { return guess.selection(limits); };
  std::vector<float> logits;
  const auto choose = [&](const Row &row) {
    if (!row.is_whole()) return guess.next(row.top);
    logits = row.logits;
    return guess.next(logits);
  };
  while (tokens.size() < most && draft_.compute(cancel_, {}, ask)) {
    const auto token = choose(draft_.row());
    if (!token) return;
    tokens.push_back(*token);
    draft_.append_tokens({&*token, 1});
  }
}

// Brings the draft's session to the same tokens, without computing them.
void ModelDrafter::catch_up(std::span<const int32_t> text) {
  const std::span<const int32_t> own = draft_.tokens();
  const size_t n_both = std::min(own.size(), text.size());
  while (n_same_ < n_both && own[n_same_] == text[n_same_]) ++n_same_;
  draft_.truncate(static_cast<uint32_t>(n_same_));
  if (n_same_ < text.size()) draft_.append_tokens(text.subspan(n_same_));
  n_same_ = text.size();
}

}  // namespace bonsai::host
