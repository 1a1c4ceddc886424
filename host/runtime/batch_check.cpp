#include "host/runtime/batch_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace bonsai::host {
namespace {

template <class... Args>
tl::unexpected<BackendError> invalid(fmt::format_string<Args...> format, Args &&...args) {
  return tl::unexpected(BackendError{BONSAI_INVALID_ARGUMENT, fmt::format(format, std::forward<Args>(args)...), true});
}

BackendResult<void> check_shape(const ExecutorConfig &config, const Batch &batch, size_t n_outputs) {
  const size_t n = batch.tokens.size();
  if (n == 0) return invalid("the batch has no tokens");
  if (n > config.max_tokens) return invalid("{} tokens in a batch, at most {} fit", n, config.max_tokens);
  if (batch.positions.size() != n || batch.sequences.size() != n) {
    return invalid("{} tokens, but {} positions and {} sequences", n, batch.positions.size(), batch.sequences.size());
  }
  if (batch.n_sequences > config.max_sequences || batch.blocks_per_sequence > config.max_blocks_per_sequence) {
    return invalid("a block table of {} x {}, at most {} x {} fit", batch.n_sequences, batch.blocks_per_sequence,
                   config.max_sequences, config.max_blocks_per_sequence);
  }
  if (batch.block_table.size() != size_t{batch.n_sequences} * batch.blocks_per_sequence) {
    return invalid("a block table of {} entries, expected {} x {}", batch.block_table.size(), batch.n_sequences,
                   batch.blocks_per_sequence);
  }
  if (n_outputs > config.max_outputs) return invalid("{} outputs, at most {} fit", n_outputs, config.max_outputs);
  return {};
}

BackendResult<void> check_token(const model::Config &model, int32_t token) {
  if (token >= 0 && static_cast<uint32_t>(token) < model.vocab) return {};
  return invalid("token {} is outside the vocabulary of {}", token, model.vocab);
}

BackendResult<void> check_place(const ExecutorConfig &config, const Batch &batch, size_t i) {
  const uint32_t position = batch.positions[i], sequence = batch.sequences[i];
  if (position >= config.context) {
    return invalid("position {} is beyond the context of {}", position, config.context);
  }
  if (sequence >= batch.n_sequences) {
    return invalid("token {} of the batch names sequence {} of {}", i, sequence, batch.n_sequences);
  }
  if (position / config.block_size >= batch.blocks_per_sequence) {
    return invalid("position {} is beyond the sequence's {} blocks of {}", position, batch.blocks_per_sequence,
                   config.block_size);
  }
  const auto row = batch.block_table.subspan(size_t{sequence} * batch.blocks_per_sequence);
  for (const uint32_t block : row.first(position / config.block_size + 1)) {
    if (block >= config.n_blocks) return invalid("block {} is outside the pool of {}", block, config.n_blocks);
  }
  return {};
}

BackendResult<void> check_selection(const SelectionLimits &limits, uint32_t vocab, const Selection &selection) {
  const uint32_t most = std::min(limits.max_k, vocab);
  if (most == 0) return invalid("the largest logits are asked for, expected whole rows: the backend selects nothing");
  if (selection.k == 0 || selection.k > most) {
    return invalid("the {} largest logits are asked for, expected 1 to {}", selection.k, most);
  }
  const size_t n = selection.ids.size(), n_words = (size_t{vocab} + 31) / 32;
  if (!limits.adjusts && (n > 0 || !selection.mask.empty())) {
    return invalid("adjusted logits are asked for, which the backend does not offer");
  }
  if (selection.add.size() != n || selection.repeat.size() != n) {
    return invalid("{} adjusted ids, but {} and {} adjustments", n, selection.add.size(), selection.repeat.size());
  }
  if (!selection.mask.empty() && selection.mask.size() != n_words) {
    return invalid("a mask of {} words, expected {}", selection.mask.size(), n_words);
  }
  return {};
}

}  // namespace

BackendResult<void> check_selections(const SelectionLimits &limits, const model::Config &model,
                                     std::span<const Output> outputs) {
  BackendResult<void> checked;
  for (size_t i = 0; checked && i < outputs.size(); ++i) {
    if (outputs[i].kind == OutputKind::kTop) checked = check_selection(limits, model.vocab, outputs[i].selection);
  }
  return checked;
}

BackendResult<void> check_batch(const ExecutorConfig &config, const model::Config &model, const Batch &batch,
                                std::span<const Output> outputs, bool follows) {
  auto checked = check_shape(config, batch, outputs.size());
  for (size_t i = 0; checked && i < batch.tokens.size(); ++i) {
    if (!follows || batch.tokens[i] != BONSAI_TOKEN_FROM_OUTPUT(0)) checked = check_token(model, batch.tokens[i]);
    if (checked) checked = check_place(config, batch, i);
  }
  for (size_t i = 0; checked && i < outputs.size(); ++i) {
    if (outputs[i].token >= batch.tokens.size()) {
      return invalid("output {} names token {} of {}", i, outputs[i].token, batch.tokens.size());
    }
  }
  return checked;
}

BackendResult<void> check_copy(const ExecutorConfig &config, std::span<const uint32_t> sources,
                               std::span<const uint32_t> destinations) {
  if (sources.size() != destinations.size()) {
    return invalid("{} blocks to copy to {}", sources.size(), destinations.size());
  }
  for (const auto blocks : {sources, destinations}) {
    for (const uint32_t block : blocks) {
      if (block >= config.n_blocks) return invalid("block {} is outside the pool of {}", block, config.n_blocks);
    }
  }
  return {};
}

BackendResult<void> check_transfer(const ExecutorConfig &config, std::span<const uint32_t> blocks, uint32_t n_tokens,
                                   uint64_t bytes, uint64_t expected) {
  for (const uint32_t block : blocks) {
    if (block >= config.n_blocks) return invalid("block {} is outside the pool of {}", block, config.n_blocks);
  }
  if (n_tokens > uint64_t{blocks.size()} * config.block_size)
    return invalid("{} tokens in {} blocks of {}", n_tokens, blocks.size(), config.block_size);
  if (bytes != expected) return invalid("{} bytes for {} tokens, expected {}", bytes, n_tokens, expected);
  return {};
}

std::string kv_dtype_name(bonsai_kv_dtype dtype) {
  switch (dtype) {
    case BONSAI_KV_F16:
      return "f16";
    case BONSAI_KV_Q8_0:
      return "q8_0";
    case BONSAI_KV_F32:
      return "f32";
    default:
      return fmt::format("KV dtype {}", dtype);
  }
}

}  // namespace bonsai::host
