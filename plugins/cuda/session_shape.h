// A session's sizes, all derived from the spec, the configuration and the device.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <string>

#include "plugins/common/backend_table.h"
#include "plugins/common/session_config.h"
#include "plugins/common/tickets.h"
#include "plugins/cuda/attention.h"
#include "plugins/cuda/batch_arrays.h"
#include "plugins/cuda/driver/platform.h"
#include "plugins/cuda/layout/activations.h"
#include "plugins/cuda/selection.h"

namespace bonsai::cuda {

using namespace plugin;

struct SessionShape {
  ModelShape model;
  BatchLimits batch;
  AttentionLimits attention;  // the KV pool among them
  SelectionLimits selection;

  // Throws BONSAI_INVALID_ARGUMENT or BONSAI_UNSUPPORTED.
  static SessionShape check(const bonsai_model_spec &spec, const bonsai_session_config &config,
                            const DeviceDescription &device);

  const KvPool &pool() const { return attention.pool; }
  KvPoolShape exported_pool() const;
  uint64_t rows() const;    // most rows that a product has: a batch, or a group of outputs
  uint64_t widest() const;  // elements of the longest vector that a product takes
  bool has_selection() const { return model.has_head; }

  // The forms of activations that scratch is made for. Which are used depends on the weights, and session_memory is
  // asked before there are any.
  static constexpr ActivationForms kAllForms = {
      .codes_by_128 = true, .bit_planes = true, .codes_by_32 = true, .halves = true};
};

// Where everything lies in the session's one piece of device scratch, in bytes from its beginning.
struct ScratchLayout {
  ScratchLayout(const SessionShape &shape, const AttentionPlanner &planner);

  uint64_t x;                              // (max_tokens, hidden) the residual stream
  uint64_t qkv;                            // (max_tokens, qkv_rows)
  uint64_t attended;                       // (max_tokens, q_rows)
  uint64_t gate_up;                        // (max_tokens, 2 * ffn)
  uint64_t gated, gated_bytes;             // packed, of one token
  uint64_t activations, activation_bytes;  // packed, of rows() vectors
  uint64_t partials;                       // of attention
  uint64_t sent;                           // what comes with a submit: SentShape
  uint64_t block_lists;                    // (2, n_blocks) of kv_copy; of kv_export and kv_import
  uint64_t normed;                         // (group_rows, hidden)
  uint64_t logits;                         // (group_rows, vocab)
  uint64_t select_partials, segments;      // SelectionSizes
  uint64_t selected;                       // likewise
  uint64_t bytes;
};

// What a session takes: the KV pool, scratch and vectors on the device, and pinned memory on the host.
MemoryNeed session_memory(const SessionShape &shape);

// The unit of device code (compile/units.h) that attends over such a pool.
std::string attention_unit(const KvPool &pool);

// Where the parts lie of what a submit sends in one copy, in bytes: the batch's arrays come first. All follows from the
// numbers that a captured graph is found by.
struct SentShape {
  uint64_t plan = 0;        // attention's
  uint64_t parameters = 0;  // of the outputs

  static SentShape of(const BatchShape &batch, const AttentionPlan &plan) {
    return {.plan = batch.end(), .parameters = batch.end() + plan.bytes()};
  }
};

// Bytes of what a submit sends, at most; and of a slot's rows of logits or states on the host.
uint64_t sent_bytes(const SessionShape &shape, const AttentionPlanner &planner);
uint64_t row_slot_bytes(const SessionShape &shape);
inline constexpr uint64_t kSlots = Tickets::kMaxInFlight;

}  // namespace bonsai::cuda
