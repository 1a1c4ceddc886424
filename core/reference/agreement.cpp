#include "core/reference/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace bonsai::reference {
namespace {

template <class Number>
double log_sum_exp(std::span<const Number> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

double divergence(std::span<const double> judge, std::span<const float> other) {
  const double of_judge = log_normaliser(judge), of_other = log_normaliser(other);
  double sum = 0;
  for (size_t i = 0; i < judge.size(); ++i) {
    const double log_p = judge[i] - of_judge, p = std::exp(log_p);
    if (p > 0) sum += p * (log_p - (other[i] - of_other));
  }
  return sum;
}

template <class Number>
size_t choice(std::span<const Number> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The lead of the logit at `first`, the largest, over the second.
double lead(std::span<const double> logits, size_t first) {
  double second = -INFINITY;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i != first) second = std::max(second, logits[i]);
  }
  return logits[first] - second;
}

}  // namespace

double log_normaliser(std::span<const double> logits) { return log_sum_exp(logits); }
double log_normaliser(std::span<const float> logits) { return log_sum_exp(logits); }

void AgreementMeter::add(std::span<const double> judge, std::span<const float> other) {
  const size_t chosen = choice(judge);
  ++sums_.predictions;
  if (choice(other) == chosen) {
    ++sums_.same_choice;
  } else {
    sums_.largest_lead_lost = std::max(sums_.largest_lead_lost, lead(judge, chosen));
  }
  sums_.mean_divergence += divergence(judge, other);
  for (size_t i = 0; i < judge.size(); ++i) {
    if (other[i] != judge[i]) squared_error_ += (other[i] - judge[i]) * (other[i] - judge[i]);  // both may be infinite
    if (std::isfinite(judge[i])) squared_logits_ += judge[i] * judge[i];
  }
}

Agreement AgreementMeter::result() const {
  Agreement result = sums_;
  if (result.predictions > 0) result.mean_divergence /= static_cast<double>(result.predictions);
  if (squared_logits_ > 0) result.logit_error = std::sqrt(squared_error_ / squared_logits_);
  return result;
}

}  // namespace bonsai::reference
