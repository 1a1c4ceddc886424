#include "host/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

namespace bonsai::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The sampler that `run` has by default, with its luck fixed.
host::Sampler make_sampler(uint32_t vocab) {
  SamplingOptions options;
  options.seed = 1;
  auto sampler = host::Sampler::create(std::move(options), vocab);
  if (!sampler) throw EngineError(ErrorKind::kInvalidArgument, sampler.error().message);
  return *std::move(sampler);
}

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

Runner::Runner(const Engine &engine)
    : engine_(engine),
      session_(engine.new_session()),
      sampler_(make_sampler(engine.model().vocabulary)),
      text_(make_text(engine.model().context, engine.model().vocabulary)) {}

Timing Runner::prefill(uint32_t n_tokens) {
  session_.truncate(0);
  session_.append_tokens(std::span(text_).first(n_tokens));
  const auto start = Clock::now();
  session_.logits();
  return {.seconds = seconds_since(start)};
}

Timing Runner::decode(uint32_t depth, uint32_t n_tokens) {
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
  const Timing timing = run();
  if (!offered) return make_profile(timing, std::nullopt);
  return make_profile(timing, engine_.stop_profile());
}

Timing Runner::decode_from_here(uint32_t n_tokens) {
  Timing timing{.samples = n_tokens};
  int32_t token = text_.front();
  const auto start = Clock::now();
  for (uint32_t i = 0; i < n_tokens; ++i) {
    session_.append_tokens({&token, 1});
    std::vector<float> logits = session_.logits();
    const auto computed = Clock::now();
    token = sample(logits);
    timing.sampling_seconds += seconds_since(computed);
  }
  timing.seconds = seconds_since(start);
  return timing;
}

// What the cache holds already is kept, but for the last token, which is run again.
void Runner::go_to(uint32_t depth) {
  session_.truncate(depth);
  if (depth == 0) return;
  const uint32_t length = session_.length();
  if (length < depth) session_.append_tokens(std::span(text_).subspan(length, depth - length));
  session_.logits();
}

int32_t Runner::sample(std::vector<float> &logits) {
  const auto token = sampler_.sample(logits);
  if (!token) throw EngineError(ErrorKind::kBackend, token.error().message);
  sampler_.remember({&*token, 1});
  return *token;
}

Rates measure(Runner &runner, const Plan &plan, const Observers &observers) {
  const uint64_t total = 2 * (uint64_t{plan.repetitions} + 1);
  uint64_t done = 0;
  const auto seconds_of = [&](const auto &run) {
    const Timing timing = run();
    observers.progress(++done, total);
    return timing.seconds;
  };
  const auto prefill = [&] { return runner.prefill(plan.prompt_tokens); };
  const auto decode = [&] { return runner.decode(plan.depth, plan.decode_tokens); };
  const auto stream = [&] { return observers.stream ? observers.stream() : 0.0; };

  Rates rates;
  std::vector<double> seconds;
  seconds_of(prefill);
  for (uint32_t i = 0; i < plan.repetitions; ++i) seconds.push_back(seconds_of(prefill));
  rates.prefill = rate_of(plan.prompt_tokens, seconds);

  seconds.clear();
  seconds_of(decode);
  for (uint32_t i = 0; i < plan.repetitions; ++i) {
    const double before = stream();
    seconds.push_back(seconds_of(decode));
    rates.decode_repetitions.push_back({.tokens_per_second = plan.decode_tokens / seconds.back(),
                                        .stream_bytes_per_second = std::max(before, stream())});
  }
  rates.decode = rate_of(plan.decode_tokens, seconds);
  return rates;
}

}  // namespace bonsai::bench
