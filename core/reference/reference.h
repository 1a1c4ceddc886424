// The judge: the forward pass in float64 over decoded weights (DESIGN §6, §7). It shares no arithmetic with any backend
// and is written to be read, not to be fast.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/model/weights.h"

namespace bonsai::reference {

// What K and V are rounded to when stored. kF64 rounds nothing.
enum class KvType { kF64, kF32, kF16, kQ8_0 };

// One sequence's evaluation. The model must outlive it.
class Evaluator {
 public:
  Evaluator(const model::Model &model, KvType kv);

  // Appends one token at the next position and returns logits (vocab) of it. Fails on an id outside the vocabulary or
  // when `context` positions are used up.
  Result<std::vector<double>> step(int32_t token);
  // Appends tokens and returns the last one's logits; cheaper than step() in a loop because other heads are skipped.
  Result<std::vector<double>> run(std::span<const int32_t> tokens);
  // Forgets every position from `length` on.
  void truncate(uint32_t length);
  uint32_t length() const { return length_; }
  // The final hidden state after the output norm of the last token, (hidden).
  const std::vector<double> &last_hidden() const { return hidden_; }

 private:
  Result<void> advance(int32_t token);
  std::vector<double> project_head() const;
  const model::Model &model_;
  KvType kv_;
  std::vector<double> frequencies_;
  uint32_t length_ = 0;
  std::vector<double> hidden_;
  std::vector<std::vector<double>> keys_, values_;  // per layer, (length, kv_heads * head_dim)
};

}  // namespace bonsai::reference
