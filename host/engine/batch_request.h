// What a BatchState keeps of a request, and what a step gives it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>

#include "host/engine/batch_state.h"
#include "host/engine/continuation.h"
#include "host/sampling/logprobs.h"
#include "host/speculation/speculator.h"

namespace bonsai::host {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// What guesses how a request's text goes on, where that is asked for.
std::optional<Speculator> make_speculator(const EngineState &engine, const GenerateOptions &options);

struct BatchState::Request {
  Request(const EngineState &engine, Order what, std::atomic<bool> &is_stop_requested)
      : order(std::move(what)),
        notice(order.options.cancel, Notice{is_stop_requested}),
        continuation(engine, order.options, order.callback, order.tokens),
        speculator(make_speculator(engine, order.options)) {
    if (speculator) speculator->begin(order.tokens);
  }

  // The first token whose logits are still wanted. Beyond all of them: the last, whichever that is by then.
  uint32_t logits_from() const {
    constexpr uint32_t kLast = ~0u;
    const std::optional<uint32_t> first_scored = order.options.prompt_logprobs_from;
    if (!first_scored || first_choice) return kLast;
    return std::max(*first_scored, 1u) - 1 + continuation.n_scored();
  }

  struct Notice {
    std::atomic<bool> &is_stop_requested;
    void operator()() const noexcept { is_stop_requested = true; }
  };

  Order order;
  const std::stop_callback<Notice> notice;
  Continuation continuation;
  std::optional<Speculator> speculator;
  RequestId id = 0;
  Generation generation;     // once it has ended, or
  std::exception_ptr error;  // why it failed
  const Clock::time_point submitted = Clock::now();
  std::optional<Clock::time_point> first_choice;
};

// What a step has computed for a request.
struct BatchState::Results {
  std::span<Output> outputs;
  std::span<Result<LogProbs>> logprobs;  // (outputs), or none where they are not asked for

  // Once each. Throws EngineError where the row is no distribution.
  LogProbs logprobs_of(size_t i) const { return value_or_throw(std::move(logprobs[i]), ErrorKind::kBackend); }
};

}  // namespace bonsai::host
