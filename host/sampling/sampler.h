// Chooses tokens from rows of logits.
#pragma once

#include <bonsai/sampling.h>

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "host/sampling/random.h"
#include "host/sampling/selection.h"

namespace bonsai::host {

// One sequence's sampler. The same options, seed, history and logits give the same tokens on every machine: the
// arithmetic is float64 addition, multiplication and division in a fixed order, with its own exp and random numbers.
class Sampler {
 public:
  // Errors name the option, what was found and what was expected. Biases of one token add up.
  static Result<Sampler> create(SamplingOptions options, uint32_t vocab);

  // Makes the penalties aware of tokens: first the prompt's, then each one that was chosen.
  void remember(std::span<const int32_t> tokens);

  // Chooses from one row of logits (vocab), which bias and penalties change in place. Among equal logits the lower id
  // comes first. Errors: a NaN or +infinity among the logits; no token left that is allowed.
  Result<int32_t> sample(std::span<float> logits);

  // What a device has to pick out of the next row for sample() to choose from that as from all logits, to the last bit:
  // its adjustments are this sampler's bias and penalties. k is 0 where no selection within the limits does that: all
  // tokens are candidates, or one has a bias and a penalty, which rounds otherwise in the device's order.
  Selection selection(const SelectionLimits &limits) const;

  // The same choice as the other sample() makes, from what selection() asked for. Errors: the same, but that NaN goes
  // unseen among logits that were not asked for.
  Result<int32_t> sample(const TopLogits &top);

  uint64_t seed() const { return seed_; }

 private:
  struct Candidate {
    float logit;
    int32_t id;
  };
  static bool ranks_before(const Candidate &a, const Candidate &b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }

  Sampler(SamplingOptions options, uint32_t vocab, uint64_t seed);
  bool has_penalties() const;
  float penalty_of(uint32_t count) const;
  bool add_biases(Selection &selection) const;
  bool add_penalties(Selection &selection) const;
  void adjust(std::span<float> logits) const;
  bool collect(std::span<const float> logits);
  bool collect_top_k(std::span<const float> logits);
  void keep_top_p(float largest);
  void keep_min_p(float largest);
  Result<int32_t> choose();
  int32_t draw(float largest);

  SamplingOptions options_;  // biases by token; of one, in the order given
  uint32_t vocab_;
  uint64_t seed_;
  RandomStream random_;
  uint64_t n_draws_ = 0;
  std::deque<int32_t> window_;
  std::map<int32_t, uint32_t> counts_;  // of the tokens in window_
  std::vector<Candidate> candidates_;   // of the row at hand; kept for its memory
  std::vector<double> weights_;         // likewise
};

}  // namespace bonsai::host
