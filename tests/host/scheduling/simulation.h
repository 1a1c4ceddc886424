// Random requests and cancellations against a scheduler with a fake device. The same seed is the same history.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "host/scheduling/scheduler.h"
#include "tests/host/scheduling/fake_device.h"

namespace bonsai::host {

struct Scenario {
  SchedulerConfig config;
  uint32_t n_requests = 12;
  uint32_t vocab = 2;              // few tokens: texts have much in common
  uint32_t arrivals_percent = 50;  // chance of one more request in a step
  uint32_t cancel_percent = 10;    // of the requests are cancelled, at any time
  uint32_t guess_percent = 0;      // of the requests guess in a step what comes next
  uint32_t right_percent = 80;     // chance of each guessed token to be right
  uint32_t score_percent = 0;      // of the requests want logits of their prompts
  int32_t n_priorities = 1;
  bool audit = true;  // look at the scheduler's own account too, and not only at what the device sees
};

// Sizes from none to spare to plenty, drawn from the seed.
Scenario random_scenario(uint64_t seed);

class Simulation {
 public:
  Simulation(const Scenario &scenario, uint64_t seed);

  // Until all requests have ended. Returns the first promise of scheduler.h that was broken; empty: none.
  std::string run();

  // Called with every planned step before it runs.
  std::function<void(Scheduler &scheduler, Step &step)> sabotage;

  const SchedulerCounts &counts() const { return scheduler_.counts(); }
  uint32_t n_finished() const { return n_finished_; }  // with all of their text
  uint32_t n_cancelled() const { return n_cancelled_; }
  uint64_t n_guessed() const { return n_guessed_; }  // tokens, in steps
  uint64_t n_right() const { return n_right_; }      // of these, that texts went on with
  uint64_t n_scored() const { return n_scored_; }    // outputs of prompts

 private:
  struct Request {
    RequestId id = 0;
    int32_t priority = 0;
    size_t n_prompt = 0, n_new = 0;
    size_t logits_from = 0;  // of the next token whose logits it wants
    FakeText text;
    std::optional<uint64_t> cancel_at;  // step
    uint64_t last_step = 0;             // by which it has ended, if all have one priority
  };
  using Requests = std::map<RequestId, Request>;

  uint32_t draw(uint32_t from, uint32_t to) { return from + static_cast<uint32_t>(random_() % (to - from + 1)); }
  bool chance(uint32_t percent) { return random_() % 100 < percent; }
  std::vector<int32_t> random_prompt();
  void arrive();
  void cancel_some();
  std::string step();
  std::vector<Guess> random_guesses(const Step &step);
  static std::string check_guesses(const Step &planned, const Step &step);
  std::string take_results(const Step &step);
  std::string take_row(const Step::Row &row);
  std::string take_scores(const Step &step, const Step::Row &row);
  std::string end(Requests::iterator request);
  std::string check_first_in_rank(const Step &step) const;
  std::string check_account() const;
  uint64_t cost(const Request &request) const;

  const Scenario scenario_;
  std::mt19937_64 random_;
  Scheduler scheduler_;
  FakeDevice device_;
  std::vector<std::vector<int32_t>> prefixes_;  // that prompts begin with
  Requests requests_;                           // that have not ended
  uint64_t now_ = 0;                            // steps
  uint32_t n_arrived_ = 0, n_finished_ = 0, n_cancelled_ = 0;
  uint64_t n_guessed_ = 0, n_right_ = 0, n_scored_ = 0;
};

}  // namespace bonsai::host
