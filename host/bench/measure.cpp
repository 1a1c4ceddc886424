#include "host/bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

namespace bonsai::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Ids from all over the vocabulary. What they say does not matter: no step's work depends on it.
std::vector<int32_t> make_text(uint32_t n_tokens, uint32_t vocab) {
  std::vector<int32_t> tokens(n_tokens);
  for (uint64_t i = 0; i < n_tokens; ++i) tokens[i] = static_cast<int32_t>((i * 2654435761u + 1) % vocab);
  return tokens;
}

}  // namespace

Rate rate_of(uint32_t n_tokens, std::span<const double> seconds) {
  const auto n = static_cast<double>(seconds.size());
  std::vector<double> rates;
  for (const double time : seconds) rates.push_back(n_tokens / time);
  const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / n;
  double squares = 0;
  for (const double rate : rates) squares += (rate - mean) * (rate - mean);
  return {.tokens_per_second = mean, .stddev = rates.size() > 1 ? std::sqrt(squares / (n - 1)) : 0};
}

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return (numbers[(numbers.size() - 1) / 2] + numbers[numbers.size() / 2]) / 2;
}

Runner::Runner(const Engine &engine, const SamplingOptions &sampling)
    : engine_(engine),
      sampling_(sampling),
      session_(engine.new_session()),
      text_(make_text(engine.model().context, engine.model().vocabulary)) {}

double Runner::prefill(uint32_t n_tokens) {
  session_.truncate(0);
  session_.append_tokens(std::span(text_).first(n_tokens));
  const auto start = Clock::now();
  session_.logits();
  return seconds_since(start);
}

double Runner::decode(uint32_t depth, uint32_t n_tokens) {
  go_to(depth);
  return decode_from_here(n_tokens);
}

Profile Runner::profile_prefill(uint32_t n_tokens) {
  return profile([&] { return prefill(n_tokens); });
}

Profile Runner::profile_decode(uint32_t depth, uint32_t n_tokens) {
  go_to(depth);
  return profile([&] { return decode_from_here(n_tokens); });
}

template <class Run>
Profile Runner::profile(const Run &run) {
  const bool offered = engine_.start_profile();
  const double seconds = run();
  if (!offered) return make_profile(seconds, std::nullopt);
  return make_profile(seconds, engine_.stop_profile());
}

// Each pass but the first runs the token that was chosen before it.
double Runner::decode_from_here(uint32_t n_tokens) {
  session_.append_tokens(std::span(text_).first(1));
  GenerateOptions options;
  options.max_tokens = n_tokens;
  options.ignore_eos = true;
  options.sampling = sampling_;
  options.sampling.seed = 1;
  const auto start = Clock::now();
  const Generation generation = session_.generate(options);
  const double seconds = seconds_since(start);
  if (generation.tokens.size() != n_tokens)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("{} tokens were decoded of {}: {}", generation.tokens.size(), n_tokens,
                                  finish_reason_name(generation.finish)));
  return seconds;
}

// What the cache holds already is kept, but for the last token, which is run again.
void Runner::go_to(uint32_t depth) {
  session_.truncate(depth);
  if (depth == 0) return;
  const uint32_t length = session_.length();
  if (length < depth) session_.append_tokens(std::span(text_).subspan(length, depth - length));
  session_.logits();
}

Rates measure(Runner &runner, const Plan &plan, const Observers &observers) {
  const uint64_t total = 2 * (uint64_t{plan.repetitions} + 1);
  uint64_t done = 0;
  const auto seconds_of = [&](const auto &run) {
    const double seconds = run();
    observers.progress(++done, total);
    return seconds;
  };
  const auto prefill = [&] { return runner.prefill(plan.prompt_tokens); };
  const auto decode = [&] { return runner.decode(plan.depth, plan.decode_tokens); };
  const auto ask = [](const std::function<double()> &observer) { return observer ? observer() : 0.0; };

  Rates rates;
  std::vector<double> seconds;
  seconds_of(prefill);
  for (uint32_t i = 0; i < plan.repetitions; ++i) seconds.push_back(seconds_of(prefill));
  rates.prefill = rate_of(plan.prompt_tokens, seconds);

  seconds.clear();
  seconds_of(decode);
  for (uint32_t i = 0; i < plan.repetitions; ++i) {
    const double stream_before = ask(observers.stream), handover_before = ask(observers.handover);
    seconds.push_back(seconds_of(decode));
    const double handover_after = ask(observers.handover);
    const auto [least, most] = std::minmax(handover_before, handover_after);
    rates.decode_repetitions.push_back({.tokens_per_second = plan.decode_tokens / seconds.back(),
                                        .stream_bytes_per_second = std::max(stream_before, ask(observers.stream)),
                                        .handover_seconds = {.least = least, .most = most}});
  }
  rates.decode = rate_of(plan.decode_tokens, seconds);
  return rates;
}

}  // namespace bonsai::bench
