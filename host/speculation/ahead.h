// What a pass has computed beyond the end of a text, on the chance that the text goes on like that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "host/sampling/selection.h"

namespace bonsai::host {

// Tokens that may follow the text, each with the row behind it. They count only as long as the text goes on with
// exactly these: the text's own choices decide, made from the model's logits as if nothing had been proposed. Output is
// therefore unchanged, greedy or sampled, seed for seed.
//
// For a proposed token x that is not random itself this is the rule of Leviathan, Kalman and Matias (arXiv:2211.17192):
// x is accepted with the model's probability p(x), and what stands there else follows p without x, renormalised. A
// draft model chooses with the same random numbers as the model will, so that both agree often (the idea of
// arXiv:2408.07978).
class Ahead {
 public:
  void set(std::span<const int32_t> tokens, std::vector<Row> rows);
  void clear();

  bool goes_on_with(int32_t token) const { return next_ < tokens_.size() && tokens_[next_] == token; }

  // The row behind the next token. Precondition: goes_on_with() it.
  Row take();

 private:
  std::vector<int32_t> tokens_;
  std::vector<Row> rows_;  // (tokens)
  size_t next_ = 0;
};

}  // namespace bonsai::host
