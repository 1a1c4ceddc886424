// Attention that prepares heads and packs what it finds (cuda.fusion=attention), and products of gate and up that do
// SwiGLU (cuda.fusion=swiglu), against a kernel for each of these: the same bytes, on the emulator, with fewer
// launches.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/plugins/cuda/fake_driver/fake_support.h"
#include "tools/plugin-check/judge.h"
#include "tools/plugin-check/random_model.h"
#include "tools/plugin-check/session.h"

namespace bonsai::test {
namespace {

using check::Path;
using quant::Format;

// Of a sequence of so many blocks, in no particular order.
std::vector<uint32_t> some_blocks(uint32_t n) {
  std::vector<uint32_t> blocks(n);
  for (uint32_t i = 0; i < n; ++i) blocks[i] = (i * 7 + 3) % n;
  return blocks;
}

struct Case {
  const char *name;
  check::ModelShape shape;
  bonsai_kv_dtype kv = BONSAI_KV_F16;
  Path path = Path::kForward;
  uint32_t from = 0;  // positions that come before, and are zeros
  bool is_packed = true;
  bool is_gated = false;
};

constexpr uint32_t kBlockSize = 64, kSequenceBlocks = 40, kPrompt = 3, kDecoded = 3;

// A model on a device, with kernels that do more or less.
struct Side {
  Side(const char *fusion, const model::Model &model, const Case &c)
      : context({.path = BONSAI_CUDA_PLUGIN, .device = 0, .options = {{"cuda.fusion", fusion}}}),
        uploaded(context.device(), model, {.positions = kBlockSize * kSequenceBlocks}),
        session(uploaded, config(context, c.kv), c.path) {}

  static bonsai_session_config config(check::Context &context, bonsai_kv_dtype kv) {
    bonsai_session_config config = check::usual_config(context, kv, kBlockSize);
    config.max_tokens = 64;
    config.max_outputs = 64;
    config.max_blocks_per_sequence = kSequenceBlocks;
    config.n_blocks = 2 * kSequenceBlocks;
    return config;
  }

  check::Context context;
  check::UploadedModel uploaded;
  check::Session session;
};

struct Found {
  std::vector<std::vector<float>> logits;
  uint64_t kernels;
};

// A token of each of two sequences, one behind all that came, one that begins.
std::vector<std::vector<float>> run_two(check::Session &session, uint32_t position,
                                        const std::vector<uint32_t> &blocks) {
  std::vector<uint32_t> others;  // that the first sequence has not
  for (uint32_t i = 0; i < kSequenceBlocks; ++i) others.push_back(kSequenceBlocks + i);
  check::Batch batch;
  batch.block_table = {blocks, others};
  batch.add(3, position, 0);
  batch.add(4, 0, 1);
  check::Outputs outputs(session.model.model.config.vocab, session.model.model.config.hidden);
  for (const uint32_t row : {0u, 1u}) outputs.logits(row);
  session.run(batch, outputs);
  return {outputs[0].logits, outputs[1].logits};
}

// Of a few tokens together, then of tokens one by one, and of two sequences'.
Found run(Side &side, const std::vector<int32_t> &tokens, uint32_t from) {
  const std::vector<uint32_t> blocks = some_blocks(kSequenceBlocks);
  fake::control().reset();
  Found found = {.logits = side.session.logits({tokens.data(), kPrompt}, from, blocks), .kernels = 0};
  for (uint32_t i = kPrompt; i < tokens.size(); ++i) {
    found.logits.push_back(side.session.logits({tokens.data() + i, 1}, from + i, blocks).back());
  }
  for (auto &row : run_two(side.session, from + static_cast<uint32_t>(tokens.size()), blocks)) {
    found.logits.push_back(std::move(row));
  }
  found.kernels = fake::control().kernels();
  return found;
}

std::vector<Case> all_cases() {
  const check::ModelShape heads_of_128 = {
      .layers = 2, .hidden = 256, .ffn = 384, .heads = 4, .kv_heads = 2, .head_dim = 128, .format = Format::kQ1_0_G128};
  const auto with = [&](auto edit) {
    check::ModelShape shape = heads_of_128;
    edit(shape);
    return shape;
  };
  return {
      {.name = "Bits", .shape = heads_of_128},
      {.name = "TernaryOverCodes",
       .shape = with([](auto &shape) { shape.format = Format::kTQ2_0_G128; }),
       .kv = BONSAI_KV_Q8_0},
      {.name = "GroupsOf32", .shape = with([](auto &shape) { shape.format = Format::kQ4_0; })},
      {.name = "HeadsOf256", .shape = with([](auto &shape) {
                               shape.heads = 2;
                               shape.kv_heads = 1;
                               shape.head_dim = 256;
                             })},
      {.name = "Gated", .shape = with([](auto &shape) { shape.ffn = 512; }), .is_gated = true},
      {.name = "GatedOfFourSegments",
       .shape = with([](auto &shape) {
         shape.ffn = 512;
         shape.hidden = 2048;
       }),
       .is_gated = true},
      {.name = "GatedOfManySegments",
       .shape = with([](auto &shape) {
         shape.layers = 1;
         shape.ffn = 512;
         shape.hidden = 8 * 512;
       }),
       .is_gated = true},
      {.name = "GatedOfFiveSegments",
       .shape = with([](auto &shape) {
         shape.layers = 1;
         shape.ffn = 512;
         shape.hidden = 5 * 512;
       }),
       .is_gated = true},
      {.name = "QueriesKeysAndValuesOfTwoMatrices", .shape = with([](auto &shape) {
                                                      shape.formats = {{"attn_v", Format::kTQ2_0_G128}};
                                                    })},
      // Where it stays a kernel of its own: rows of gate that are no whole segments, above; more blocks than
      // multiprocessors; codes of more than a bit.
      {.name = "GatedInWaves", .shape = with([](auto &shape) { shape.ffn = 2560; })},
      {.name = "GatedTernary", .shape = with([](auto &shape) {
                                 shape.ffn = 512;
                                 shape.format = Format::kTQ1_0_G128;
                               })},
      {.name = "LayerByLayer", .shape = heads_of_128, .path = Path::kLayers},
      {.name = "SplitSections", .shape = with([](auto &shape) { shape.kv_heads = 1; }), .from = 2300},
      {.name = "SectionsThatBegin", .shape = heads_of_128, .from = 508},
      // What is not packed in attention: floats, heads that are no groups, rows that are no segments.
      {.name = "Floats", .shape = with([](auto &shape) { shape.format = Format::kF16; }), .is_packed = false},
      {.name = "HeadsOf64",
       .shape = with([](auto &shape) {
         shape.heads = 8;
         shape.head_dim = 64;
       }),
       .is_packed = false},
      {.name = "ThreeHeads",
       .shape = with([](auto &shape) {
         shape.heads = 3;
         shape.kv_heads = 1;
       }),
       .is_packed = false},
  };
}

// Fewer than gate and up of GatedInWaves have blocks, more than those of the other cases.
[[maybe_unused]] const int kHasMultiprocessors = setenv("BONSAI_FAKE_CUDA_MULTIPROCESSORS", "16", 1);

class CudaFusion : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Every, CudaFusion, testing::ValuesIn(all_cases()),
                         [](const auto &info) { return std::string(info.param.name); });

TEST_P(CudaFusion, HasTheBytesOfSeparateKernels) {
  const Case &c = GetParam();
  const check::RandomModel random(c.shape);
  const std::vector<int32_t> tokens = check::random_tokens(kPrompt + kDecoded, c.shape.vocab, 5);
  Side apart("off", random.model(), c), fused("attention", random.model(), c);
  const Found expected = run(apart, tokens, c.from), found = run(fused, tokens, c.from);
  EXPECT_EQ(found.logits, expected.logits);
  const uint64_t saved = c.is_packed ? 2 : 1;  // of a layer: heads that are prepared, and packed
  EXPECT_EQ(found.kernels + saved * c.shape.layers * (1 + kDecoded + 1), expected.kernels);
  for (const uint64_t order : c.is_gated ? std::vector<uint64_t>{0, 1, 2} : std::vector<uint64_t>{0}) {
    Side gated("swiglu", random.model(), c);
    fake::control().set_order(order);
    const Found also = run(gated, tokens, c.from);
    fake::control().set_order(0);
    EXPECT_EQ(also.logits, expected.logits) << order;
    EXPECT_EQ(also.kernels + (c.is_gated ? c.shape.layers * kDecoded : 0), found.kernels);
  }
  EXPECT_EQ(fake::control().misuse(), "");
}

}  // namespace
}  // namespace bonsai::test
