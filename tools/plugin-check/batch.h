// A batch and the outputs that are wanted of it, with the memory behind them.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <deque>
#include <vector>

namespace bonsai::check {

// What results hold until a backend writes them: a NaN that no arithmetic makes.
inline constexpr uint32_t kUnwrittenBits = 0x7FC0BADFu;

class Batch {
 public:
  std::vector<int32_t> tokens;
  std::vector<float> hidden;  // (n_tokens, hidden), for sessions without an embedding
  std::vector<uint32_t> positions;
  std::vector<uint32_t> sequences;
  std::vector<std::vector<uint32_t>> block_table;  // a row for each sequence, of any length

  void add(int32_t token, uint32_t position, uint32_t sequence = 0);
  uint32_t size() const { return static_cast<uint32_t>(positions.size()); }
  bonsai_batch view();  // valid until the next change

 private:
  std::vector<uint32_t> flat_table_;
};

class Outputs {
 public:
  Outputs(uint32_t vocab, uint32_t hidden) : vocab_(vocab), hidden_(hidden) {}

  // Each adds an output of a batch's token; the reference is for adjustments, and stays valid.
  bonsai_output &logits(uint32_t token);
  bonsai_output &argmax(uint32_t token);
  bonsai_output &top(uint32_t token, uint32_t k, std::vector<int32_t> ids = {});
  bonsai_output &hidden_state(uint32_t token);

  struct Result {
    std::vector<float> logits, top_logits, id_logits, hidden;
    std::vector<int32_t> top_ids, ids;
    float log_sum_exp = 0;
  };
  const Result &operator[](size_t i) const { return results_[i]; }
  const bonsai_output *const *data() const { return pointers_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(pointers_.size()); }

 private:
  bonsai_output &add(bonsai_output_kind kind, uint32_t token);

  uint32_t vocab_, hidden_;
  std::deque<bonsai_output> outputs_;
  std::deque<Result> results_;
  std::vector<const bonsai_output *> pointers_;
};

}  // namespace bonsai::check
