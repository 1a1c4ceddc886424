// The judge: the forward pass in float64 over decoded weights. It shares no arithmetic with any backend
// and is written to be read, not to be fast.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/model/weights.h"
#include "core/reference/matrix.h"

namespace bonsai::reference {

// What K and V are rounded to when stored. kF64 rounds nothing; the others take the float64 value to float32 first, as
// every backend's K and V are. kQ8_0 has groups of 32 along head_dim, encoded as the weight format of that name.
enum class KvType { kF64, kF32, kF16, kQ8_0 };

// One sequence's evaluation. The model must outlive it. Small models are decoded once, in the constructor. All
// cores multiply matrices, as far as the system lets threads run when it is made.
class Evaluator {
 public:
  Evaluator(const model::Model &model, KvType kv);
  Evaluator(Evaluator &&) noexcept;
  ~Evaluator();

  // Appends one token at the next position and returns logits (vocab) of it. Fails on an id outside the vocabulary,
  // when `context` positions are used up, or when head_dim does not divide into the KV type's groups.
  Result<std::vector<double>> step(int32_t token);
  // Appends tokens and returns the logits of each, (tokens, vocab): those of step() in a loop, in less time, as weights
  // are decoded once for several tokens. Fails as step() does, and on an empty span, before anything is appended.
  Result<std::vector<std::vector<double>>> steps(std::span<const int32_t> tokens);
  // Appends tokens and returns the last one's logits; the other heads are skipped. Fails as steps() does.
  Result<std::vector<double>> run(std::span<const int32_t> tokens);
  // Forgets every position from `length` on.
  void truncate(uint32_t length);
  uint32_t length() const { return length_; }
  // The final hidden state after the output norm of the last token that was appended, (hidden).
  const std::vector<double> &last_hidden() const { return hidden_; }

 private:
  struct Layer;
  // Positions [first, first + n), of the tokens that go through a layer together.
  struct Positions {
    size_t first, n;
  };
  Result<void> check(std::span<const int32_t> tokens) const;
  std::vector<double> logits_of_last(std::span<const int32_t> tokens);
  std::vector<std::vector<double>> logits_of_each(std::span<const int32_t> tokens);
  void advance(std::span<const int32_t> tokens);
  std::vector<double> attention(Layer &layer, std::span<const double> h, Positions at) const;
  void attend(const Layer &layer, std::span<const double> queries, size_t position, std::span<double> mixed) const;
  std::vector<double> feed_forward(const Layer &layer, std::span<const double> h, size_t n) const;
  void turn_to(Positions at);
  void norm_and_rotate(std::vector<double> &heads, std::span<const float> norm, size_t n) const;

  const model::Model &model_;
  KvType kv_;
  int threads_;
  std::vector<long double> frequencies_;  // (head_dim / 2)
  std::vector<double> cos_, sin_;         // of the positions at hand, scaled, (positions, head_dim / 2)
  Matrix embedding_, head_;               // (vocab, hidden)
  std::vector<Layer> layers_;
  uint32_t length_ = 0;
  std::vector<double> x_;       // the residual stream of the positions at hand, (positions, hidden)
  std::vector<double> hidden_;  // the last one's after the output norm, (hidden)
};

}  // namespace bonsai::reference
