// A model on a device: KV pool, scratch, and the forward pass over batches.
#pragma once

#include <bonsai/backend.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/common/batch_checker.h"
#include "plugins/common/kv_range.h"
#include "plugins/common/output_checker.h"
#include "plugins/common/tickets.h"
#include "plugins/cuda/attention.h"
#include "plugins/cuda/batch_arrays.h"
#include "plugins/cuda/device.h"
#include "plugins/cuda/graph_cache.h"
#include "plugins/cuda/model.h"
#include "plugins/cuda/packing.h"
#include "plugins/cuda/selection.h"
#include "plugins/cuda/session_shape.h"

namespace bonsai::cuda {

using namespace plugin;

class Session {
 public:
  Session(Device &device, const bonsai_model_spec &spec, const bonsai_session_config &config);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  static MemoryNeed memory(Device &device, const bonsai_model_spec &spec, const bonsai_session_config &config) {
    return session_memory(SessionShape::check(spec, config, device.description()));
  }

  // The functions of the ABI's table, which documents them. All check their arguments before they change anything.
  void layer_encode(uint32_t layer, const bonsai_batch &batch, const float *in, float *out);
  void lm_head(const float *in, uint32_t n_rows, const bonsai_output *const *outputs, uint32_t n_outputs);
  uint64_t forward_submit(const bonsai_batch &batch, const bonsai_output *const *outputs, uint32_t n_outputs);
  void forward_wait(uint64_t ticket);
  void kv_copy(const uint32_t *sources, const uint32_t *destinations, uint32_t n);
  void kv_export(const KvRange &range, void *data);
  void kv_import(const KvRange &range, const void *data);

 private:
  Session(Device &device, const bonsai_model_spec &spec, const bonsai_session_config &config,
          const CurrentContext &current);

  // Outputs that a call asks for.
  struct Request {
    const bonsai_output *const *outputs;
    uint32_t n;
  };
  // What a submit keeps on the host until it is waited for: pinned memory, and where results go.
  struct Slot {
    PinnedBuffer sent;     // in one copy, as `shape` says
    PinnedBuffer results;  // written by select_finish
    PinnedBuffer rows;     // received
    SentShape shape;
    SelectionRound round;
    bool has_results = false;      // the round's, which nobody has been given yet
    std::vector<RowCopy> pending;  // the rows in `rows`, likewise
    Event done;
  };
  // A batch on the device.
  struct Staged {
    BatchShape shape;
    BatchArrays arrays;
    AttentionPlan attention;
    uint64_t plan;  // where attention's arrays lie in scratch
  };

  // session.cpp
  Slot make_slot();
  // Of the calls that return with their results.
  Slot &own_slot() { return *slots_[kSlots]; }
  std::byte *scratch(uint64_t place) const { return scratch_.as<std::byte>(place); }
  float *floats(uint64_t place) const { return scratch_.as<float>(place); }
  void prepare_kernels();
  Staged stage_batch(const bonsai_batch &batch, Slot &slot);
  void send(const Slot &slot, uint64_t first, uint64_t end);
  void submit_pass(const bonsai_batch &batch, const Request &request, Slot &slot);
  GraphKey graph_key(const Staged &staged, const SelectionGroup *group) const;
  void check_outputs(const Request &request, uint32_t n_rows) const;

  // session_layer.cpp
  void embed(const Staged &staged);
  void run_layers(uint32_t first, uint32_t n, const Staged &staged);
  void run_layer(uint32_t index, const Staged &staged);
  void attention_half(const Layer &layer, uint32_t index, const Staged &staged);
  void ffn_half(const Layer &layer, uint64_t n);
  // One of a layer's four products.
  struct Step {
    Phase phase;
    const std::vector<MatrixRows> &rows;
    uint64_t n, columns;
    PackedSource source;
    const float *x;                    // (n, columns), kGated: (n, 2 * columns)
    const uint32_t *picked = nullptr;  // kNormed only: see RowsToPack
    const float *norm;                 // kNormed only
    const float *bias;
    float *y;
    uint64_t y_stride;
    bool add;
  };
  void run_product(const Step &step);
  bool gates(const Layer &layer, uint64_t n) const;
  void run_gated(const Step &gate_up, const Step &down);
  void multiply_packed(const Step &step, const PackedActivations &activations);
  PackedActivations pack(const Step &step);
  RowsToPack rows_to_pack(const std::vector<MatrixRows> &rows, uint64_t n, uint64_t columns) const;
  PrepareHeadsArguments heads_to_prepare(const Layer &layer, uint32_t index, const Staged &staged) const;
  void prepare_heads(const PrepareHeadsArguments &arguments, uint32_t n_tokens);
  AttendArguments attend_arguments(uint32_t index, const Staged &staged) const;
  CombineArguments combine_arguments(const Staged &staged) const;
  bool packs_heads(const Layer &layer, const Staged &staged) const;
  void attend(const Layer &layer, uint32_t index, const Staged &staged);

  // session_outputs.cpp
  SelectionBuffers selection_buffers(const Slot &slot) const;
  uint32_t stage_round(const Request &request, uint32_t first, Slot &slot);
  uint32_t send_round(const Request &request, uint32_t first, Slot &slot);
  void run_group(const Slot &slot, const SelectionGroup &group);
  void multiply_head(uint64_t n, const uint32_t *picked);
  void run_groups(Slot &slot);
  void run_rounds(const Request &request, uint32_t first, Slot &slot);
  void run_head(const Request &request);
  void head_over(const float *in, const Request &request);
  void fetch_rows(Slot &slot, const SelectionGroup &group);
  void deliver(Slot &slot);
  void deliver_rows(Slot &slot);
  uint64_t row_stride_bytes() const { return row_slot_bytes(shape_) / shape_.selection.group_rows; }

  // session_kv.cpp
  void copy_blocks(const std::vector<uint32_t> &from, const std::vector<uint32_t> &to);
  template <class Before, class After>
  void move_rows(const KvRange &range, const char *kernel, Before &&before, After &&after);

  Device &device_;
  SessionShape shape_;
  AttentionPlanner planner_;
  ScratchLayout layout_;
  Model model_;
  KvPool pool_;
  BatchChecker checker_;
  OutputChecker output_checker_;
  DeviceBuffer kv_, scratch_;
  uint64_t device_bytes_;                                // of all of it
  std::array<std::unique_ptr<Slot>, kSlots + 1> slots_;  // of tickets, by number; the last: own_slot()
  GraphCache graphs_;
  std::vector<bool> selects_;  // of the previous submit's outputs: whether it selects a token; none if it failed
  uint32_t n_states_ = 0;      // rows that the previous layer_encode left in x; 0 if it failed
  Tickets tickets_;
};

}  // namespace bonsai::cuda
