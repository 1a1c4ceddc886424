#include "host/engine/continuation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/utf8.h"

namespace bonsai::host {
namespace {

// What an action takes, added to a sum of seconds.
template <class Action>
void timed(double &seconds, Action action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool adjusts_logits(const SamplingOptions &options) {
  return options.repetition_penalty != 1 || options.presence_penalty != 0 || options.frequency_penalty != 0 ||
         !options.logit_bias.empty();
}

// Where nothing is allowed any more, that is the caller's doing, a bias or a grammar; and so is a logit beyond all
// numbers where the caller changes some.
int32_t chosen(const Result<int32_t> &token, std::span<const float> logits, const SamplingOptions &options) {
  if (token) return *token;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool none_is_allowed = std::all_of(logits.begin(), logits.end(), [](float x) { return x == -kInfinity; });
  const bool are_numbers = std::none_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
  if (none_is_allowed) throw EngineError(ErrorKind::kInvalidArgument, token.error().message);
  if (are_numbers && adjusts_logits(options))
    throw EngineError(ErrorKind::kInvalidArgument, token.error().message + ", with the penalties and biases asked for");
  throw EngineError(ErrorKind::kBackend, token.error().message);
}

// One that begins or ends within a character would cut the text there, an empty one before it begins.
const std::vector<std::string> &checked_stops(const std::vector<std::string> &stops) {
  for (const std::string &stop : stops) {
    if (stop.empty()) throw EngineError(ErrorKind::kInvalidArgument, "stop: expected a text, found an empty one");
    if (const size_t offset = find_invalid_utf8(stop); offset != std::string_view::npos)
      throw EngineError(ErrorKind::kInvalidArgument, fmt::format("stop: invalid UTF-8 at byte offset {}", offset));
  }
  return stops;
}

}  // namespace

Continuation::Continuation(const EngineState &engine, const GenerateOptions &options, const TextCallback &callback,
                           std::span<const int32_t> before)
    : engine_(engine),
      options_(options),
      callback_(callback),
      sampler_(make_sampler()),
      decoder_(engine_.require_tokenizer()),
      stops_(checked_stops(options.stop)),
      constraint_(make_constraint()) {
  sampler_.remember(before);
  result_.stats.seed = sampler_.seed();
}

Sampler Continuation::make_sampler() const {
  if (options_.max_tokens == 0)
    throw EngineError(ErrorKind::kInvalidArgument, "max_tokens: expected at least 1, found 0");
  if (options_.logprobs > engine_.model.config.vocab)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("logprobs: expected at most the vocabulary's {}, found {}",
                                  engine_.model.config.vocab, options_.logprobs));
  SamplingOptions sampling = options_.sampling;
  if (options_.ignore_eos) {
    for (const int32_t id : engine_.end_tokens)
      sampling.logit_bias.push_back({id, -std::numeric_limits<float>::infinity()});
  }
  return value_or_throw(Sampler::create(std::move(sampling), engine_.model.config.vocab), ErrorKind::kInvalidArgument);
}

std::optional<Constraint> Continuation::make_constraint() {
  std::shared_ptr<grammar::TokenMasks> masks;
  timed(result_.stats.compile_seconds, [&] {
    masks = engine_.constraints.compile(options_, engine_.require_tokenizer(), engine_.model.config.vocab);
  });
  if (!masks) return std::nullopt;
  return Constraint(std::move(masks));
}

// Log-probabilities are sums over the whole row in float64, which no device makes.
Selection Continuation::selection(const SelectionLimits &limits) {
  if (options_.logprobs > 0) return {};
  Selection selection = sampler_.selection(limits);
  if (constraint_)
    timed(stats().constraint_seconds, [&] { selection = restricted(std::move(selection), limits, *constraint_); });
  return selection;
}

// Where the grammar leaves no token, the whole row comes, and choosing from it says so.
Selection Continuation::restricted(Selection selection, const SelectionLimits &limits, Constraint &constraint) {
  if (selection.k == 0 || !limits.adjusts) return {};
  selection.is_lasting = false;
  selection.mask = constraint.mask();
  if (selection.mask.empty()) return {};
  return selection;
}

void Continuation::score(int32_t token, std::span<const float> logits, const LogProbs &logprobs) {
  result_.prompt_logprobs.push_back(logprobs.of(token, logits[static_cast<size_t>(token)]));
}

std::optional<int32_t> Continuation::choose(std::span<float> logits) {
  if (options_.logprobs == 0) return choose_from(logits, nullptr);
  return choose(logits, value_or_throw(LogProbs::create(logits, options_.logprobs), ErrorKind::kBackend));
}

std::optional<int32_t> Continuation::choose(std::span<float> logits, const LogProbs &logprobs) {
  return choose_from(logits, &logprobs);
}

// What the options change in a row may be the chosen token's own logit. A constraint changes none that may be chosen.
std::optional<int32_t> Continuation::choose_from(std::span<float> logits, const LogProbs *logprobs) {
  const bool is_adjusted = adjusts_logits(options_.sampling);
  if (logprobs != nullptr && is_adjusted) unadjusted_.assign(logits.begin(), logits.end());
  if (constraint_) {
    if (constraint_->is_complete()) return std::nullopt;  // before the first token: nothing may follow at all
    timed(stats().constraint_seconds, [&] { constraint_->restrict(logits); });
    ++stats().constrained_tokens;
  }
  const int32_t token = chosen(sampler_.sample(logits), logits, options_.sampling);
  const auto index = static_cast<size_t>(token);
  if (logprobs != nullptr) logprobs_ = logprobs->of(token, is_adjusted ? unadjusted_[index] : logits[index]);
  return unless_it_ends(token);
}

std::optional<int32_t> Continuation::choose(const TopLogits &top) {
  if (constraint_) ++stats().constrained_tokens;
  return unless_it_ends(chosen(sampler_.sample(top), top.logits, options_.sampling));
}

std::optional<int32_t> Continuation::unless_it_ends(int32_t token) {
  if (!engine_.tokenizer->is_end_of_generation(token)) return token;
  if (logprobs_) result_.end_logprobs = *std::move(logprobs_);
  return std::nullopt;
}

Continuation::Guess::Guess(Continuation &continuation) : continuation_(continuation), sampler_(continuation.sampler_) {}

Continuation::Guess::~Guess() {
  if (n_constrained_ > 0) continuation_.constraint_->rollback(n_constrained_);
}

std::optional<int32_t> Continuation::Guess::next(std::span<float> logits) {
  std::optional<Constraint> &constraint = continuation_.constraint_;
  if (constraint && !constraint->try_restrict(logits)) return std::nullopt;
  return take(sampler_.sample(logits));
}

std::optional<int32_t> Continuation::Guess::next(const TopLogits &top) { return take(sampler_.sample(top)); }

Selection Continuation::Guess::selection(const SelectionLimits &limits) {
  std::optional<Constraint> &constraint = continuation_.constraint_;
  Selection selection = sampler_.selection(limits);
  return constraint ? restricted(std::move(selection), limits, *constraint) : selection;
}

std::optional<int32_t> Continuation::Guess::take(const Result<int32_t> &token) {
  std::optional<Constraint> &constraint = continuation_.constraint_;
  if (!token || continuation_.engine_.tokenizer->is_end_of_generation(*token)) return std::nullopt;
  if (constraint && !constraint->accept(*token)) return std::nullopt;
  n_constrained_ += constraint.has_value();
  sampler_.remember({&*token, 1});
  return *token;
}

std::optional<FinishReason> Continuation::accept(int32_t token, uint32_t room) {
  sampler_.remember({&token, 1});
  result_.tokens.push_back(token);
  if (logprobs_) result_.logprobs.push_back(*std::move(logprobs_));
  if (constraint_) timed(stats().constraint_seconds, [&] { constraint_->go_on(token); });
  refused_ = !show(stops_.push(decoder_.push(token)));
  if (stops_.stopped()) return FinishReason::kStopString;
  if (refused_) return FinishReason::kCancelled;
  if (constraint_ && constraint_->is_complete()) return FinishReason::kEndOfText;
  if (result_.tokens.size() == options_.max_tokens) return FinishReason::kLength;
  if (room == 0) return FinishReason::kContextFull;
  return std::nullopt;
}

// A character that was not completed may complete a stop string, as the one that shows in its place.
Generation Continuation::finish(FinishReason reason) {
  result_.finish = reason;
  if (reason != FinishReason::kStopString && !refused_) {
    std::string rest = stops_.push(decoder_.flush());
    if (stops_.stopped()) result_.finish = FinishReason::kStopString;
    rest += stops_.flush();
    show(rest);
  }
  result_.stop = stops_.found();
  return std::move(result_);
}

// False if the callback wants no more.
bool Continuation::show(const std::string &text) {
  result_.text += text;
  return text.empty() || !callback_ || callback_(text);
}

}  // namespace bonsai::host
