#include "plugins/cuda/session_shape.h"

#include <gtest/gtest.h>

#include <vector>

namespace bonsai::cuda {
namespace {

// A model without layers' contents: shapes alone.
struct Spec {
  std::vector<float> table = std::vector<float>(64 * 16, 0.5f), norm = std::vector<float>(64, 1.0f);
  bonsai_weight_slice slice{};
  bonsai_model_spec model{};
  bonsai_session_config config{};
  DeviceDescription device;

  Spec() {
    slice.struct_size = sizeof slice;
    model.struct_size = sizeof model;
    model.n_layers = 2;
    model.hidden = 64;
    model.ffn = 96;
    model.n_heads = 4;
    model.n_kv_heads = 2;
    model.head_dim = 32;
    model.vocab = 100;
    model.rms_eps = 1e-6f;
    model.softmax_scale = 0.17f;
    model.rope_dim = 32;
    model.rope_positions = 64;
    model.rope_cos = table.data();
    model.rope_sin = table.data();
    model.output_norm = norm.data();
    model.head = &slice;
    model.embedding = &slice;
    config = {.struct_size = sizeof config,
              .kv_dtype = BONSAI_KV_F16,
              .block_size = 16,
              .n_blocks = 8,
              .max_tokens = 16,
              .max_sequences = 2,
              .max_blocks_per_sequence = 4,
              .max_outputs = 4,
              .max_k = 10,
              .reserved = 0};
    device.multiprocessors = 4;
    device.shared_bytes_per_block = 96 << 10;
    device.shared_bytes_per_multiprocessor = 100 << 10;
  }
  SessionShape check() const { return SessionShape::check(model, config, device); }
  std::string failure() const {
    try {
      check();
      return "accepted";
    } catch (const Failure &failure) {
      return failure.what();
    }
  }
};

TEST(CudaSessionShape, HeadsBeyond256AreRefused) {
  Spec spec;
  spec.model.head_dim = 512;
  EXPECT_EQ(spec.failure(), "model->head_dim is 512, expected at most 256");
}

TEST(CudaSessionShape, MoreHeadsThanAGridHasRowsAreRefused) {
  Spec spec;
  spec.model.n_heads = 65536;
  spec.model.n_kv_heads = 2;
  spec.model.head_dim = spec.model.rope_dim = 16;
  EXPECT_EQ(spec.failure(), "model->n_heads is 65536, expected at most 65535");
}

TEST(CudaSessionShape, APoolThatNoMachineHasIsRefusedBeforeSizesOverflow) {
  Spec spec;
  spec.model.n_layers = 4096;
  spec.model.n_heads = spec.model.n_kv_heads = 4096;
  spec.model.head_dim = 256;
  spec.config.n_blocks = 1u << 28;
  spec.config.block_size = 128;
  EXPECT_EQ(spec.failure().find("device memory: a KV cache of "), 0u) << spec.failure();
}

// The parts of the scratch lie one after the other and do not overlap.
TEST(CudaSessionShape, PartsOfTheScratchDoNotOverlap) {
  const Spec spec;
  const SessionShape shape = spec.check();
  const AttentionPlanner planner(shape.attention);
  const ScratchLayout layout(shape, planner);
  const uint64_t tokens = 16, floats = sizeof(float);
  EXPECT_GE(layout.qkv - layout.x, tokens * 64 * floats);
  EXPECT_GE(layout.attended - layout.qkv, tokens * (4 + 2 * 2) * 32 * floats);
  EXPECT_GE(layout.gate_up - layout.attended, tokens * 4 * 32 * floats);
  EXPECT_GE(layout.activations - layout.gate_up, tokens * 2 * 96 * floats);
  EXPECT_GE(layout.partials - layout.activations,
            packed_activation_bytes(SessionShape::kAllForms, tokens, shape.widest()));
  EXPECT_GE(layout.sent - layout.partials, planner.partial_bytes());
  EXPECT_GE(layout.block_lists - layout.sent, sent_bytes(shape, planner));
  EXPECT_GE(layout.normed - layout.block_lists, 2 * 8 * sizeof(uint32_t));
  EXPECT_GE(layout.logits - layout.normed, 4 * 64 * floats);
  EXPECT_GE(layout.select_partials - layout.logits, 4 * 100 * floats);
  EXPECT_GE(layout.bytes, layout.selected + 4 * sizeof(int32_t));
}

TEST(CudaSessionShape, MemoryGrowsWithWhatIsAskedFor) {
  Spec spec;
  const MemoryNeed small = session_memory(spec.check());
  spec.config.n_blocks *= 2;
  const MemoryNeed more_blocks = session_memory(spec.check());
  EXPECT_GE(more_blocks.device_bytes - small.device_bytes, uint64_t{2} * 8 * 16 * 2 * 2 * 32 * 2) << "F16 K and V";
  EXPECT_EQ(more_blocks.host_bytes, small.host_bytes);
  spec.config.max_tokens *= 2;
  EXPECT_GT(session_memory(spec.check()).device_bytes, more_blocks.device_bytes);
  EXPECT_GT(session_memory(spec.check()).host_bytes, more_blocks.host_bytes);
}

}  // namespace
}  // namespace bonsai::cuda
