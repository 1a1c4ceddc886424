// Times prompts and decoding through the engine, as `bonsai run` uses it.
#pragma once

#include <bonsai/engine.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "host/bench/profile.h"

namespace bonsai::bench {

// What is run: all but `depth` at least 1, and the engine's context holds prompt_tokens, and depth + decode_tokens + 1.
struct Plan {
  uint32_t prompt_tokens = 128;
  uint32_t decode_tokens = 32;
  uint32_t depth = 0;  // tokens in the cache before the first decoded one
  uint32_t repetitions = 3;
  std::vector<uint32_t> concurrency = {};  // numbers of sequences that decode at once
  SamplingOptions sampling = {};           // with which tokens are chosen
};

// Over the repetitions: their mean, and how far one is from it (the sample standard deviation; 0 with only one).
struct Rate {
  double tokens_per_second = 0;
  double stddev = 0;
};
Rate rate_of(uint32_t n_tokens, std::span<const double> seconds);

// Of an even number the mean of the two in the middle. Precondition: not empty.
double median(std::vector<double> numbers);

// All functions throw EngineError, and return seconds.
class Runner {
 public:
  // The engine outlives it.
  explicit Runner(const Engine &engine, const SamplingOptions &sampling = {});

  // A prompt of n tokens on an empty cache, up to the logits behind its last.
  double prefill(uint32_t n_tokens);

  // n tokens, one pass and one choice each, behind `depth` others whose keys and values are there beforehand.
  double decode(uint32_t depth, uint32_t n_tokens);

  // The same, with the backend's profile on.
  Profile profile_prefill(uint32_t n_tokens);
  Profile profile_decode(uint32_t depth, uint32_t n_tokens);

 private:
  void go_to(uint32_t depth);
  double decode_from_here(uint32_t n_tokens);
  template <class Run>
  Profile profile(const Run &run);

  const Engine &engine_;
  SamplingOptions sampling_;
  Session session_;
  std::vector<int32_t> text_;  // (context) what prompts are cut from
};

struct Range {
  double least = 0, most = 0;
};

struct Rates {
  Rate prefill, decode;
  struct Repetition {
    double tokens_per_second = 0;
    // What was measured right before and after it: the more that the memory gave, and both handovers. 0: unknown.
    double stream_bytes_per_second = 0;
    Range handover_seconds = {};
  };
  std::vector<Repetition> decode_repetitions;
};

struct Observers {
  std::function<void(uint64_t, uint64_t)> progress;  // gets the passes done and in all
  std::function<double()> stream = nullptr;          // measures bytes per second; may be empty
  std::function<double()> handover = nullptr;        // measures seconds from thread to thread; may be empty
};

// Every repetition, after an untimed one. The memory is measured around each one that decodes: its speed may change
// from second to second where others share it. So may the cores that the system lends.
Rates measure(Runner &runner, const Plan &plan, const Observers &observers);

}  // namespace bonsai::bench
