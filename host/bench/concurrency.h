// Times many sequences that decode in one batch, as a server runs them.
#pragma once

#include <bonsai/engine.h>

#include <cstdint>
#include <functional>

#include "host/bench/measure.h"

namespace bonsai::bench {

// Of all sequences together.
struct Concurrency {
  uint32_t n_sequences = 0;
  Rate rate;
  double prefill_share = 0;  // the median over the repetitions, each of the prompts right before and after it
};

// `n_sequences` texts of their own, each plan.depth tokens long (at least one), go on by plan.decode_tokens at once,
// with its sampler. Time counts from when all have their first token. The engine's context holds depth + decode_tokens
// + 2. `runner` is another session of the engine, which runs the plan's prompts. `progress` is called after each pass,
// of which some come before the repetitions, untimed.
Concurrency measure_concurrency(const Engine &engine, Runner &runner, uint32_t n_sequences, const Plan &plan,
                                const std::function<void()> &progress);

uint32_t n_passes_of_concurrency(const Plan &plan);

}  // namespace bonsai::bench
