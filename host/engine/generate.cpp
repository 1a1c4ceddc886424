// Session::generate(): sample, show, feed back.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "host/engine/session_state.h"
#include "host/sampling/sampler.h"
#include "host/sampling/stop_strings.h"

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
        engine_(session.engine()),
        failed_over_before_(!session.failed_over().empty()),
        options_(options),
        callback_(callback),
        sampler_(make_sampler()),
        decoder_(engine_.require_tokenizer()),
        stops_(options.stop) {
    sampler_.remember(session.tokens());
    result_.stats.seed = sampler_.seed();
  }

  Generation run() {
    result_.finish = continue_text();
    if (result_.finish != FinishReason::kStopString && !refused_) show(stops_.push(decoder_.flush()) + stops_.flush());
    if (!failed_over_before_) result_.stats.failed_over = session_.failed_over();
    return std::move(result_);
  }

 private:
  Sampler make_sampler() const {
    SamplingOptions sampling = options_.sampling;
    if (options_.ignore_eos) {
      for (const int32_t id : engine_.end_tokens)
        sampling.logit_bias.push_back({id, -std::numeric_limits<float>::infinity()});
    }
    return value_or_throw(Sampler::create(std::move(sampling), engine_.model.config.vocab),
                          ErrorKind::kInvalidArgument);
  }

  FinishReason continue_text() {
    if (!compute_prompt()) return FinishReason::kCancelled;
    for (;;) {
      const int32_t token = sample();
      if (engine_.tokenizer->is_end_of_generation(token)) return FinishReason::kEndOfText;
      session_.append_tokens({&token, 1});
      sampler_.remember({&token, 1});
      result_.tokens.push_back(token);
      refused_ = !show(stops_.push(decoder_.push(token)));
      if (stops_.stopped()) return FinishReason::kStopString;
      if (refused_) return FinishReason::kCancelled;
      if (result_.tokens.size() == options_.max_tokens) return FinishReason::kLength;
      if (session_.room() == 0) return FinishReason::kContextFull;
      if (!decode()) return FinishReason::kCancelled;
    }
  }

  bool compute_prompt() {
    const uint32_t n_before = session_.n_pending();
    const Timer timer(result_.stats.prompt_seconds);
    const bool done = session_.compute(options_.cancel);
    // A prompt that was cancelled in the middle of a fail-over leaves more pending than there was.
    result_.stats.prompt_tokens = n_before - std::min(n_before, session_.n_pending());
    return done;
  }

  // Bias and penalties change a copy: the session's own logits stay the model's.
  int32_t sample() {
    const Timer timer(result_.stats.decode_seconds);
    row_.assign(session_.logits().begin(), session_.logits().end());
    return value_or_throw(sampler_.sample(row_), ErrorKind::kBackend);
  }

  bool decode() {
    const Timer timer(result_.stats.decode_seconds);
    if (!session_.compute(options_.cancel)) return false;
    ++result_.stats.decode_steps;
    return true;
  }

  // False if the callback wants no more.
  bool show(const std::string &text) {
    result_.text += text;
    return text.empty() || !callback_ || callback_(text);
  }

  SessionState &session_;
  const EngineState &engine_;
  const bool failed_over_before_;  // a session goes over to the CPU once
  const GenerateOptions &options_;
  const TextCallback &callback_;
  Sampler sampler_;
  text::StreamDecoder decoder_;
  StopStrings stops_;
  std::vector<float> row_;
  Generation result_;
  bool refused_ = false;  // by the callback
};

}  // namespace

Generation generate(SessionState &session, const GenerateOptions &options, const TextCallback &callback) {
  if (options.max_tokens == 0)
    throw EngineError(ErrorKind::kInvalidArgument, "max_tokens: expected at least 1, found 0");
  if (session.length() == 0)
    throw EngineError(ErrorKind::kInvalidArgument, "empty session: there is nothing to continue");
  if (session.room() == 0)
    throw EngineError(ErrorKind::kContextFull,
                      fmt::format("context full: all {} tokens are used, no room to continue", session.length()));
  return Generator(session, options, callback).run();
}

}  // namespace bonsai::host
