// Session::generate(): sample, show, feed back.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "host/engine/continuation.h"
#include "host/engine/model_drafter.h"
#include "host/engine/session_state.h"
#include "host/speculation/lookup_drafter.h"
#include "host/speculation/speculator.h"

namespace bonsai::host {
namespace {

// Adds the time of its life to a sum.
class Timer {
 public:
  explicit Timer(double &seconds) : seconds_(seconds) {}
  ~Timer() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Timer(const Timer &) = delete;
  Timer &operator=(const Timer &) = delete;

 private:
  double &seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// One generation, from its options to its end.
class Generator {
 public:
  Generator(SessionState &session, const GenerateOptions &options, const std::shared_ptr<EngineState> &draft,
            const TextCallback &callback)
      : session_(session),
        failed_over_before_(!session.failed_over().empty()),
        options_(options),
        continuation_(session.engine(), options_, callback, session.tokens()),
        speculator_(make_speculator(draft)) {}
  // What was computed ahead is of use to nobody else: the session is left as if there had been no proposals.
  ~Generator() { session_.drop_ahead(); }
  Generator(const Generator &) = delete;
  Generator &operator=(const Generator &) = delete;

  Generation run() {
    const FinishReason reason = continue_text();
    if (speculator_) {
      stats().proposed_tokens = speculator_->counts().proposed;
      stats().accepted_tokens = speculator_->counts().accepted;
      stats().seconds_one_by_one = seconds_one_by_one();
    }
    Generation result = continuation_.finish(reason);
    if (!failed_over_before_) result.stats.failed_over = session_.failed_over();
    return result;
  }

 private:
  std::optional<Speculator> make_speculator(const std::shared_ptr<EngineState> &draft) {
    std::vector<std::unique_ptr<Drafter>> drafters;
    if (options_.lookup) drafters.push_back(std::make_unique<LookupDrafter>());
    if (draft)
      drafters.push_back(
          std::make_unique<ModelDrafter>(session_, session_.draft_session(draft), continuation_, options_.cancel));
    if (drafters.empty()) return std::nullopt;
    return std::make_optional<Speculator>(std::move(drafters), session_.engine().model.config.vocab);
  }

  FinishReason continue_text() {
    if (!compute_prompt() || options_.cancel.stop_requested()) return FinishReason::kCancelled;
    for (;;) {
      const std::optional<int32_t> token = choose();
      if (!token) return FinishReason::kEndOfText;
      session_.append_tokens({&*token, 1});
      if (speculator_) speculator_->came(*token);
      if (const auto ended = continuation_.accept(*token, session_.room())) return *ended;
      if (!decode()) return FinishReason::kCancelled;
    }
  }

  // The first row comes whole: NaN that a damaged head puts anywhere into every row is found there.
  bool compute_prompt() {
    const uint32_t n_before = session_.n_pending();
    const Timer timer(stats().prompt_seconds);
    const bool done = session_.compute(options_.cancel);
    // A prompt that was cancelled in the middle of a fail-over leaves more pending than there was.
    stats().prompt_tokens = n_before - std::min(n_before, session_.n_pending());
    if (done && speculator_) speculator_->begin(session_.tokens());
    return done;
  }

  // Of a whole row from a copy: the session's own stays the model's.
  std::optional<int32_t> choose() {
    const Timer timer(stats().decode_seconds);
    const Row &row = session_.row();
    if (!row.is_whole()) return continuation_.choose(row.top);
    logits_ = row.logits;
    return continuation_.choose(logits_);
  }

  bool decode() {
    const Timer timer(stats().decode_seconds);
    const bool is_pass = !session_.is_ahead();
    // Behind the token that this pass is for, another one may follow.
    const bool goes_on = !speculator_ && std::min(session_.room(), continuation_.n_left()) > 1;
    if (!(speculator_ && is_pass ? verify() : session_.compute(options_.cancel, {}, ask_, goes_on))) return false;
    ++stats().decode_steps;
    stats().decode_passes += is_pass;
    return true;
  }

  // A pass with proposals, which the clock stands by.
  bool verify() {
    const Timer whole(verify_seconds_);
    // Behind the last proposal comes one more token, and none after that.
    const uint32_t most = std::min({session_.most_proposals(), session_.room() - 1, continuation_.n_left() - 1});
    const std::span<const int32_t> proposals = speculator_->propose(most, session_.pass_costs());
    const bool was_failed_over = !session_.failed_over().empty();
    double seconds = 0;
    {
      const Timer timer(seconds);
      if (!session_.compute(options_.cancel, proposals, ask_)) return false;
    }
    if (was_failed_over == !session_.failed_over().empty())
      session_.pass_costs().add(1 + static_cast<uint32_t>(proposals.size()), seconds);
    if (!proposals.empty()) return true;
    single_seconds_ += seconds;
    ++n_single_;
    return true;
  }

  // What the decode would have taken with a pass for every token.
  double seconds_one_by_one() {
    const double single = n_single_ > 0 ? single_seconds_ / n_single_ : session_.pass_costs().single();
    return single == 0 ? 0 : stats().decode_seconds - verify_seconds_ + single * stats().decode_steps;
  }

  GenerationStats &stats() { return continuation_.stats(); }

  SessionState &session_;
  const bool failed_over_before_;  // a session goes over to the CPU once
  const GenerateOptions options_;  // the caller may change them, in the callback
  Continuation continuation_;
  const SessionState::Ask ask_ = [this](const SelectionLimits &limits) { return continuation_.selection(limits); };
  std::optional<Speculator> speculator_;
  double verify_seconds_ = 0;  // time for passes and for guessing
  double single_seconds_ = 0;  // time for passes over one token
  uint32_t n_single_ = 0;
  std::vector<float> logits_;
};

}  // namespace

Generation generate(SessionState &session, const GenerateOptions &options, const std::shared_ptr<EngineState> &draft,
                    const TextCallback &callback) {
  if (session.length() == 0)
    throw EngineError(ErrorKind::kInvalidArgument, "empty session: there is nothing to continue");
  if (options.prompt_logprobs_from)
    throw EngineError(ErrorKind::kInvalidArgument, "prompt_logprobs_from: only texts of a batch engine have it");
  if (session.room() == 0)
    throw EngineError(ErrorKind::kContextFull,
                      fmt::format("context full: all {} tokens are used, no room to continue", session.length()));
  return Generator(session, options, draft, callback).run();
}

}  // namespace bonsai::host
