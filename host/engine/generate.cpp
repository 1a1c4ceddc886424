// Session::generate(): sample, show, feed back.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "host/engine/continuation.h"
#include "host/engine/session_state.h"

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
  Generator(SessionState &session, const GenerateOptions &options, const TextCallback &callback)
      : session_(session),
        failed_over_before_(!session.failed_over().empty()),
        options_(options),
        continuation_(session.engine(), options, callback, session.tokens()) {}

  Generation run() {
    Generation result = continuation_.finish(continue_text());
    if (!failed_over_before_) result.stats.failed_over = session_.failed_over();
    return result;
  }

 private:
  FinishReason continue_text() {
    if (!compute_prompt()) return FinishReason::kCancelled;
    for (;;) {
      const std::optional<int32_t> token = choose();
      if (!token) return FinishReason::kEndOfText;
      session_.append_tokens({&*token, 1});
      if (const auto ended = continuation_.accept(*token, session_.room())) return *ended;
      if (!decode()) return FinishReason::kCancelled;
    }
  }

  bool compute_prompt() {
    const uint32_t n_before = session_.n_pending();
    const Timer timer(stats().prompt_seconds);
    const bool done = session_.compute(options_.cancel);
    // A prompt that was cancelled in the middle of a fail-over leaves more pending than there was.
    stats().prompt_tokens = n_before - std::min(n_before, session_.n_pending());
    return done;
  }

  // From a copy: the session's own logits stay the model's.
  std::optional<int32_t> choose() {
    const Timer timer(stats().decode_seconds);
    row_.assign(session_.logits().begin(), session_.logits().end());
    return continuation_.choose(row_);
  }

  bool decode() {
    const Timer timer(stats().decode_seconds);
    if (!session_.compute(options_.cancel)) return false;
    ++stats().decode_steps;
    return true;
  }

  GenerationStats &stats() { return continuation_.stats(); }

  SessionState &session_;
  const bool failed_over_before_;  // a session goes over to the CPU once
  const GenerateOptions &options_;
  Continuation continuation_;
  std::vector<float> row_;
};

}  // namespace

Generation generate(SessionState &session, const GenerateOptions &options, const TextCallback &callback) {
  if (session.length() == 0)
    throw EngineError(ErrorKind::kInvalidArgument, "empty session: there is nothing to continue");
  if (session.room() == 0)
    throw EngineError(ErrorKind::kContextFull,
                      fmt::format("context full: all {} tokens are used, no room to continue", session.length()));
  return Generator(session, options, callback).run();
}

}  // namespace bonsai::host
