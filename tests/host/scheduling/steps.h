// A small scheduler, and its steps in words.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "host/scheduling/scheduler.h"

namespace bonsai::host {

using Tokens = std::vector<int32_t>;

inline SchedulerConfig config() {
  SchedulerConfig config;
  config.context = 64;
  config.n_blocks = 16;
  config.block_size = 4;
  config.batch_tokens = 16;
  config.max_sequences = 4;
  return config;
}

// n tokens that begin like no other text's.
inline Tokens text(int32_t first, uint32_t n) {
  Tokens tokens(n);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// "0:16 1:1+3* 2:8/5" is a step with 16 tokens of request 0, one of request 1, behind which three are guessed and
// logits are wanted, and 8 of request 2, behind five of which logits are wanted, though its last is not there yet.
inline std::string in_words(const Step &step) {
  std::string words;
  for (const Step::Row &row : step.rows) {
    if (!words.empty()) words += " ";
    words += fmt::format("{}:{}", row.id, row.n_tokens);
    if (row.n_guesses > 0) words += fmt::format("+{}", row.n_guesses);
    if (row.n_scored() > 0) words += fmt::format("/{}", row.n_scored());
    words += row.wants_next ? "*" : "";
  }
  return words;
}

inline std::string plan(Scheduler &scheduler) { return in_words(scheduler.plan()); }

// The same, run: every request that has logits goes on with token 9.
inline std::string run(Scheduler &scheduler) {
  const std::string words = plan(scheduler);
  const Step step = scheduler.plan();
  scheduler.commit();
  for (const Step::Row &row : step.rows)
    if (row.wants_next) scheduler.append(row.id, 9);
  return words;
}

inline void submit(Scheduler &scheduler, RequestId id, const Tokens &tokens, int32_t priority = 0,
                   uint32_t logits_from = ~0u) {
  const auto taken = scheduler.submit({id, tokens, priority, logits_from});
  ASSERT_TRUE(taken) << taken.error().message;
}

}  // namespace bonsai::host
