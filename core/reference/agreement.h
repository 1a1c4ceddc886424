// How well predictions agree with the judge's.
#pragma once

#include <cstdint>
#include <span>

namespace bonsai::reference {

// What is subtracted from logits to make them logarithms of probabilities. NaN where they are no distribution.
double log_normaliser(std::span<const double> logits);
double log_normaliser(std::span<const float> logits);

struct Agreement {
  uint64_t predictions = 0;
  uint64_t same_choice = 0;      // of these, with the same largest logit; of equal ones the first
  double mean_divergence = 0;    // KL(judge || other), in nats
  double largest_lead_lost = 0;  // of the judge's largest logit over the second, where the other's choice is another
  double logit_error = 0;        // of all logits, relative L2
};

class AgreementMeter {
 public:
  // The logits of one prediction, equally many and two at least.
  void add(std::span<const double> judge, std::span<const float> other);

  Agreement result() const;

 private:
  Agreement sums_;  // mean_divergence: the sum
  double squared_error_ = 0, squared_logits_ = 0;
};

}  // namespace bonsai::reference
