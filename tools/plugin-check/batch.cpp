#include "tools/plugin-check/batch.h"

#include <algorithm>
#include <bit>

namespace bonsai::check {
namespace {

const float kUnwritten = std::bit_cast<float>(kUnwrittenBits);

}  // namespace

void Batch::add(int32_t token, uint32_t position, uint32_t sequence) {
  tokens.push_back(token);
  positions.push_back(position);
  sequences.push_back(sequence);
}

bonsai_batch Batch::view() {
  size_t columns = 1;
  for (const auto &row : block_table) columns = std::max(columns, row.size());
  flat_table_.assign(block_table.size() * columns, 0xFFFFFFFFu);  // what is past a row's end is not to be read
  for (size_t i = 0; i < block_table.size(); ++i) {
    std::copy(block_table[i].begin(), block_table[i].end(), flat_table_.begin() + static_cast<ptrdiff_t>(i * columns));
  }
  bonsai_batch batch{};
  batch.struct_size = sizeof batch;
  batch.n_tokens = size();
  batch.tokens = tokens.empty() ? nullptr : tokens.data();
  batch.hidden = hidden.empty() ? nullptr : hidden.data();
  batch.positions = positions.data();
  batch.sequences = sequences.data();
  batch.block_table = flat_table_.data();
  batch.n_sequences = static_cast<uint32_t>(block_table.size());
  batch.blocks_per_sequence = static_cast<uint32_t>(columns);
  return batch;
}

bonsai_output &Outputs::add(bonsai_output_kind kind, uint32_t token) {
  results_.emplace_back();
  bonsai_output &output = outputs_.emplace_back();
  output = {};
  output.struct_size = sizeof output;
  output.kind = kind;
  output.token = token;
  pointers_.push_back(&output);
  return output;
}

bonsai_output &Outputs::logits(uint32_t token) {
  bonsai_output &output = add(BONSAI_OUTPUT_LOGITS, token);
  results_.back().logits.assign(vocab_, kUnwritten);
  output.logits = results_.back().logits.data();
  return output;
}

bonsai_output &Outputs::argmax(uint32_t token) {
  bonsai_output &output = add(BONSAI_OUTPUT_ARGMAX, token);
  Result &result = results_.back();
  result.top_ids.assign(1, -1);
  result.top_logits.assign(1, kUnwritten);
  output.top_ids = result.top_ids.data();
  output.top_logits = result.top_logits.data();
  return output;
}

bonsai_output &Outputs::top(uint32_t token, uint32_t k, std::vector<int32_t> ids) {
  bonsai_output &output = add(BONSAI_OUTPUT_TOP_K, token);
  Result &result = results_.back();
  result.top_ids.assign(k, -1);
  result.top_logits.assign(k, kUnwritten);
  result.id_logits.assign(ids.size(), kUnwritten);
  result.ids = std::move(ids);
  output.k = k;
  output.n_ids = static_cast<uint32_t>(result.ids.size());
  output.ids = result.ids.data();
  output.top_ids = result.top_ids.data();
  output.top_logits = result.top_logits.data();
  output.id_logits = result.id_logits.data();
  output.log_sum_exp = &result.log_sum_exp;
  return output;
}

bonsai_output &Outputs::hidden_state(uint32_t token) {
  bonsai_output &output = add(BONSAI_OUTPUT_HIDDEN, token);
  results_.back().hidden.assign(hidden_, kUnwritten);
  output.hidden = results_.back().hidden.data();
  return output;
}

}  // namespace bonsai::check
