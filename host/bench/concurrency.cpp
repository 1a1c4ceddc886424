#include "host/bench/concurrency.h"

#include <bonsai/batch_engine.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace bonsai::bench {
namespace {

constexpr uint32_t kBatchTokens = 256;
constexpr uint32_t kUntimed = 2;       // the second still takes blocks of the KV cache that nobody has touched yet
constexpr int kPrompts = 4;            // between repetitions
constexpr uint32_t kSpareTokens = 64;  // more than a block, for each sequence

BatchOptions make_options(uint32_t n_sequences, const Plan &plan) {
  BatchOptions options;
  options.max_sequences = n_sequences;
  options.batch_tokens = std::max(kBatchTokens, n_sequences);
  const uint64_t kv_tokens = n_sequences * (uint64_t{plan.depth} + plan.decode_tokens + kSpareTokens);
  options.kv_tokens = static_cast<uint32_t>(std::min<uint64_t>(kv_tokens, std::numeric_limits<uint32_t>::max()));
  return options;
}

// No two begin alike.
std::vector<std::vector<int32_t>> make_prompts(uint32_t n_sequences, uint32_t n_tokens, uint32_t vocabulary) {
  std::vector<std::vector<int32_t>> prompts(n_sequences);
  for (uint32_t i = 0; i < n_sequences; ++i) {
    for (uint64_t j = 0; j < n_tokens; ++j)
      prompts[i].push_back(static_cast<int32_t>((i + j * 2654435761u + 1) % vocabulary));
  }
  return prompts;
}

}  // namespace

uint32_t n_passes_of_concurrency(const Plan &plan) { return kUntimed + plan.repetitions; }

// The texts' beginnings are computed beforehand. What is left of them are their last tokens, which share the first
// step.
Concurrency measure_concurrency(const Engine &engine, Runner &runner, uint32_t n_sequences, const Plan &plan,
                                const std::function<void()> &progress) {
  BatchEngine batch(engine, make_options(n_sequences, plan));
  const auto texts = make_prompts(n_sequences, std::max(plan.depth, 1u), engine.model().vocabulary);
  GenerateOptions options;
  options.ignore_eos = true;
  options.sampling = plan.sampling;
  options.sampling.seed = 1;
  options.max_tokens = 1;
  batch.generate_tokens(texts, options);
  options.max_tokens = plan.decode_tokens + 1;
  const auto decode = [&] {
    double longest = 0;
    for (const Generation &generation : batch.generate_tokens(texts, options))
      longest = std::max(longest, generation.stats.decode_seconds);
    progress();
    return longest;
  };
  // Some prompts in a row, after an untimed one: as long as the texts take for a few steps.
  const auto prefill = [&] {
    runner.prefill(plan.prompt_tokens);
    double all = 0;
    for (int j = 0; j < kPrompts; ++j) all += runner.prefill(plan.prompt_tokens);
    return kPrompts * plan.prompt_tokens / all;
  };

  for (uint32_t i = 0; i < kUntimed; ++i) decode();
  std::vector<double> seconds, shares;
  for (uint32_t i = 0; i < plan.repetitions; ++i) {
    const double before = prefill();
    seconds.push_back(decode());
    const double after = prefill();
    shares.push_back(n_sequences * plan.decode_tokens / seconds.back() / ((before + after) / 2));
  }
  return {.n_sequences = n_sequences,
          .rate = rate_of(n_sequences * plan.decode_tokens, seconds),
          .prefill_share = median(std::move(shares))};
}

}  // namespace bonsai::bench
