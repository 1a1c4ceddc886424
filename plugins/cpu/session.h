// A model on a device: KV pool, scratch, and the forward pass over batches.
#pragma once

#include <bonsai/backend.h>

#include <cstddef>
#include <cstdint>

#include "plugins/common/backend_table.h"
#include "plugins/common/batch_checker.h"
#include "plugins/common/buffer.h"
#include "plugins/common/kv_range.h"
#include "plugins/common/session_config.h"
#include "plugins/common/tickets.h"
#include "plugins/cpu/device.h"
#include "plugins/cpu/kv_cache.h"
#include "plugins/cpu/model.h"
#include "plugins/cpu/outputs.h"
#include "plugins/cpu/self_attention.h"

namespace bonsai::cpu {

using namespace plugin;

// A session's sizes, all derived from the spec and the configuration.
struct SessionShape {
  ModelShape model;
  KvShape kv;
  BatchLimits batch;
  AttentionLimits attention;
  OutputLimits outputs;
  KernelNeeds needs;  // of the device's kernels

  // Throws BONSAI_INVALID_ARGUMENT or BONSAI_UNSUPPORTED.
  static SessionShape check(const bonsai_model_spec &spec, const bonsai_session_config &config, const Device &device);
  uint64_t n_selected() const;  // outputs whose choices are kept
  uint64_t query_floats() const;
  uint64_t widest() const;                 // elements of the longest activation vector
  ActivationRoom activation_room() const;  // of quantised activations and panels for a batch, or for the head
  uint64_t bytes() const;                  // everything that a session allocates
};

// The states of a batch's tokens between the steps of a layer.
struct Activations {
  // Rows of a matrix, `stride` elements from one to the next.
  struct Rows {
    float *data;
    uint64_t stride;
  };

  explicit Activations(const SessionShape &shape);
  static uint64_t bytes(const SessionShape &shape);
  uint64_t bytes() const;

  Buffer<float> x;              // (max_tokens, hidden) the residual stream
  Buffer<float> h;              // (max_tokens, hidden) after a norm; a matrix's contribution to x
  Buffer<float> qkv;            // (max_tokens, qkv_rows)
  Buffer<float> queries;        // (max_tokens, heads, head_dim filled up to whole vectors)
  Buffer<float> gate_up;        // (max_tokens, 2 * ffn)
  Buffer<std::byte> quantized;  // scratch of matrix products
  ActivationRoom quantized_room;
  ActivationScratch scratch() const { return quantized_room.in(quantized.data()); }

  // What a thread computes from its own results, and others read: attention's output (n_tokens, q_rows), and silu(gate)
  // * up (n_tokens, ffn). Of few tokens it takes the place of q and of gate. On a place of its own its stores wait for
  // the other cores to give up the lines that they have read; a product's, which come there next, are not waited for.
  // Of many tokens the product waits as well (docs/cpu-decoding.md, "Cores that are far apart").
  Rows attended(uint32_t n_tokens) const;
  Rows ffn(uint32_t n_tokens) const;

 private:
  uint64_t q_rows_, qkv_rows_, ffn_;
  Buffer<float> attended_of_many_, ffn_of_many_;  // where they are not in place
};

class Session {
 public:
  Session(Device &device, const bonsai_model_spec &spec, const bonsai_session_config &config);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  static MemoryNeed memory(Device &device, const bonsai_model_spec &spec, const bonsai_session_config &config) {
    const uint64_t bytes = SessionShape::check(spec, config, device).bytes();
    return {.device_bytes = bytes, .host_bytes = bytes};
  }

  // The functions of the ABI's table, which documents them. All check their arguments before they change anything.
  void layer_encode(uint32_t layer, const bonsai_batch &batch, const float *in, float *out);
  void lm_head(const float *in, uint32_t n_rows, const bonsai_output *const *outputs, uint32_t n_outputs);
  uint64_t forward_submit(const bonsai_batch &batch, const bonsai_output *const *outputs, uint32_t n_outputs);
  void forward_wait(uint64_t ticket);
  void kv_copy(const uint32_t *sources, const uint32_t *destinations, uint32_t n);
  void kv_export(const KvRange &range, void *data) const;
  void kv_import(const KvRange &range, const void *data);

 private:
  void run_layer(uint32_t index, const bonsai_batch &batch);
  void attention_half(const Layer &layer, uint32_t index, const bonsai_batch &batch);
  void ffn_half(const Layer &layer, uint32_t index, uint32_t n_tokens);
  void project(Phase phase, const Product &product);
  // What comes after a product: a step on the results of some tokens for some of the sectors.
  struct Section {
    uint32_t first_token, last_token;
    uint64_t first, last;
  };
  struct Step {
    Phase phase;
    uint64_t sector_width;  // elements of a token's sector
    FunctionRef<void(const Section &section, int worker)> run;
  };
  bool has_sectors(const Product &product) const {
    return has_sectors_for(product.rows, product.sectors, device_.threads().count());
  }
  void project(Phase phase, Product product, const Step &step);
  void run_step(const Product &product, const Step &step);
  void norm_rows(const float *weight, uint32_t n_tokens);
  void prepare_heads(const Layer &layer, uint32_t index, const bonsai_batch &batch, const Section &heads);
  struct KvHead {
    uint32_t token, index;
  };
  void add_qkv_bias(const Layer &layer, float *head, uint64_t first_row) const;
  void prepare_query(const Layer &layer, const bonsai_batch &batch, uint32_t token, uint32_t head);
  void prepare_key_and_value(const Layer &layer, uint32_t index, const bonsai_batch &batch, KvHead head);
  void normalize_and_rotate(float *head, const float *norm, uint32_t position) const;
  SelfAttention::Inputs attention_inputs(uint32_t layer, uint32_t n_tokens) const;
  void attend(uint32_t index, const bonsai_batch &batch);
  uint64_t attended_bytes(const bonsai_batch &batch) const;
  void swiglu(const Section &columns, Activations::Rows y);
  void add_to_residual(const float *bias, uint32_t n_tokens);
  void run_head(const OutputStage::Request &request, const float *x, int32_t *selected);
  void load_inputs(const bonsai_batch &batch);
  int32_t selected_by(uint32_t output) const;
  KvPoolShape pool_shape() const {
    return {.layers = shape_.kv.layers,
            .kv_heads = shape_.kv.kv_heads,
            .blocks = shape_.kv.blocks,
            .block_size = shape_.kv.block_size,
            .head_bytes = KvCache::head_bytes(shape_.kv)};
  }

  Device &device_;
  SessionShape shape_;
  Model model_;
  KvCache cache_;
  BatchChecker checker_;
  SelfAttention attention_;
  OutputStage output_stage_;
  Activations activations_;
  Buffer<int32_t> selected_;  // (max_outputs) by the previous submit's outputs; -1: no token
  uint32_t n_selected_ = 0;
  uint32_t n_states_ = 0;  // rows that the previous layer_encode left in x
  Tickets tickets_;
};

}  // namespace bonsai::cpu
