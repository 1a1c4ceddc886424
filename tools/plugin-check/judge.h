// The judge's logits for a model, and how far a backend's are from them.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/model/weights.h"
#include "core/reference/reference.h"

namespace bonsai::check {

using Logits = std::vector<std::vector<double>>;  // (tokens, vocab)

// What the judge says of every token of one sequence from position 0, with K and V rounded to `kv_dtype`.
Logits judge(const model::Model &model, bonsai_kv_dtype kv_dtype, std::span<const int32_t> tokens);
// The same after the output norm, (tokens, hidden).
Logits judge_hidden(const model::Model &model, bonsai_kv_dtype kv_dtype, std::span<const int32_t> tokens);

// ‖values - expected‖ / ‖expected‖
double relative_error(std::span<const float> values, std::span<const double> expected);

// Collects rows and compares them with the judge's: all together within `bound`, each for itself within three times
// that, because a single row's rounding errors are one draw.
class Comparison {
 public:
  explicit Comparison(double bound) : bound_(bound) {}
  // Throws Failed if this row is too far off. `what` names it: "sequence 1, position 40".
  void add(const std::string &what, std::span<const float> values, std::span<const double> expected);
  // Rows of a sequence at positions from `start`; `expected` has them from position 0.
  void add_rows(const std::string &what, const std::vector<std::vector<float>> &rows, const Logits &expected,
                uint32_t start = 0);
  // Throws Failed if all together are too far off, or none were added.
  void finish(const std::string &what) const;

 private:
  double bound_;
  double difference_ = 0, norm_ = 0;
};

// `n` tokens that follow no pattern.
std::vector<int32_t> random_tokens(uint32_t n, uint32_t vocab, uint64_t seed);

}  // namespace bonsai::check
