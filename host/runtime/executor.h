// Runs batches through a model on a device, whatever level the backend offers: the whole forward pass in one call
// (level 2), layer by layer (level 1), or composed here in float32 from matrix products (level 0).
#pragma once

#include <bonsai/backend.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "host/runtime/device_model.h"
#include "host/sampling/selection.h"

namespace bonsai::host {

struct ExecutorConfig {
  uint32_t context = 0;      // positions of the RoPE table: no sequence grows beyond
  uint32_t n_blocks = 0;     // KV blocks in the pool
  uint32_t block_size = 32;  // must be among the device's block sizes where it offers sessions
  bonsai_kv_dtype kv_dtype = BONSAI_KV_F16;
  uint32_t max_tokens = 512;  // in one batch
  uint32_t max_sequences = 1;
  uint32_t max_blocks_per_sequence = 0;
  uint32_t max_outputs = 1;
};

// One batch; see bonsai_batch for the rules. `tokens` are ids: an executor looks embeddings up itself where the device
// cannot. For submit() they may also be BONSAI_TOKEN_FROM_OUTPUT(0).
struct Batch {
  std::span<const int32_t> tokens;
  std::span<const uint32_t> positions;    // as many as tokens
  std::span<const uint32_t> sequences;    // as many as tokens; rows of the block table
  std::span<const uint32_t> block_table;  // (n_sequences, blocks_per_sequence)
  uint32_t n_sequences = 1;
  uint32_t blocks_per_sequence = 0;
};

enum class OutputKind { kLogits, kHidden, kTop };

// A row of results that is wanted: filled by forward().
struct Output {
  uint32_t token = 0;         // index into the batch
  std::vector<float> logits;  // kLogits: all of them, (vocab)
  OutputKind kind = OutputKind::kLogits;
  std::vector<float> hidden = {};  // kHidden: the state after the output norm, (hidden)
  Selection selection = {};        // kTop: what is asked for, k of it at least 1
  TopLogits top = {};              // kTop: what was found

  // Makes it of kind kTop, or kLogits where the selection is a whole row.
  void select(Selection wanted);
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorConfig &config() const = 0;
  virtual int level() const = 0;                         // which way it runs: 0, 1 or 2
  virtual SelectionLimits selection_limits() const = 0;  // of kTop outputs
  virtual uint64_t memory_bytes() const = 0;             // KV cache and scratch
  // Computes the batch, stores its K and V, and fills every output.
  virtual BackendResult<void> forward(const Batch &batch, std::span<Output> outputs) = 0;
  // forward() in two halves, for a single output, so that a pass may be submitted before what the one before it selects
  // is known: that is its BONSAI_TOKEN_FROM_OUTPUT(0). wait() ends the older of at most two that are in flight, whether
  // it fails or not; a failed submit() starts nothing. Preconditions: chains(); of wait(), that one is in flight; of
  // forward(), that none is.
  virtual bool chains() const { return false; }
  virtual BackendResult<void> submit(const Batch &batch, Output output);
  virtual BackendResult<Output> wait();
  virtual uint32_t n_in_flight() const { return 0; }
  // Copies whole KV blocks, all layers.
  virtual BackendResult<void> kv_copy(std::span<const uint32_t> sources, std::span<const uint32_t> destinations) = 0;
  // Keys and values of positions [0, n_tokens) of the sequence that lies in `blocks`, to and from the layout of
  // kv_export (backend.h), which no backend differs in. UNSUPPORTED where the backend does not offer it.
  virtual BackendResult<void> kv_export(std::span<const uint32_t> blocks, uint32_t n_tokens,
                                        std::span<std::byte> data) = 0;
  virtual BackendResult<void> kv_import(std::span<const uint32_t> blocks, uint32_t n_tokens,
                                        std::span<const std::byte> data) = 0;
};

// The best level that the backend offers, or `level` (0..2) if given; errors: UNSUPPORTED if that level is not offered.
BackendResult<std::unique_ptr<Executor>> make_executor(const DeviceModel &model, const ExecutorConfig &config,
                                                       int level = -1);

}  // namespace bonsai::host
