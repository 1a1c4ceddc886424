// What a caller can ask of one row of logits, after adjusting them. Code of one translation unit and kernels that give
// the same bytes in every tier.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu {

// Whether an output's adjust_ids rise, so that those of some logits are found without a look at all of them.
bool adjusted_ids_rise(const bonsai_output &output);

// Repetition factors and additions, then the mask, then the temperature, of logits that begin with id `first_id`.
void adjust_logits(const bonsai_output &output, bool ids_rise, std::span<float> logits, uint32_t first_id = 0);

// The largest of logits that come in pieces, in any order: the lowest id of equals. NaN is only chosen if there is
// nothing else: then id 0.
class LargestLogit {
 public:
  void add(const KernelTable &kernels, std::span<const float> logits, uint32_t first_id);
  void add(const LargestLogit &other) { add(other.value_, other.id_); }
  // Logits from an id on that are no larger would change nothing; nothing: any might.
  std::optional<float> least(uint32_t first_id) const;

  int32_t id() const { return id_ < 0 ? 0 : id_; }
  float value() const { return id_ < 0 ? std::numeric_limits<float>::quiet_NaN() : value_; }

 private:
  void add(float value, int32_t id);

  float value_ = -std::numeric_limits<float>::infinity();
  int32_t id_ = -1;  // nothing but NaN so far
};

// The `k` largest of logits that come in pieces, the lower id first among equals; NaN comes after everything else.
// `ranks` (k) is the caller's, the same for all calls.
class TopLogits {
 public:
  void add(std::span<const float> logits, uint32_t first_id, std::span<uint64_t> ranks);
  void add(const TopLogits &other, std::span<const uint64_t> other_ranks, std::span<uint64_t> ranks);
  // As LargestLogit's.
  std::optional<float> least(uint32_t first_id, std::span<const uint64_t> ranks) const;
  // The ids in falling order of their logits, and these; -0 has become +0. Ends the use of `ranks`.
  void list(std::span<uint64_t> ranks, std::span<int32_t> ids, float *logits) const;

 private:
  void add_rank(uint64_t rank, std::span<uint64_t> ranks);

  uint32_t kept_ = 0;
  uint32_t next_id_ = 0;  // all ids so far are below
};

// A piece's part of log(sum(exp(logits))).
struct ExpSum {
  float largest;  // -infinity if all are NaN
  double sum;     // of exp(logit - largest); NaN if one is NaN
};
ExpSum exp_sum(const KernelTable &kernels, std::span<const float> logits);

// log(sum(exp(logits))) of all pieces; an infinite largest logit is the result, and NaN anywhere else makes it NaN.
float log_sum_exp(const KernelTable &kernels, std::span<const ExpSum> pieces);

}  // namespace bonsai::cpu
