// All layers of a token in one kernel (cuda.fusion=layers) against a kernel for each step: the same bytes, on the
// emulator, in every order of its blocks.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
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

// How a session is made.
struct Setting {
  bonsai_kv_dtype kv = BONSAI_KV_F16;
  Path path = Path::kForward;
  bool has_biases = false;
  uint32_t block_size = 64, sequence_blocks = 40;
};
const std::vector<uint32_t> kBlocks = some_blocks(Setting().sequence_blocks);

check::Plugin plugin_with(const char *fusion) {
  return {.path = BONSAI_CUDA_PLUGIN, .device = 0, .options = {{"cuda.fusion", fusion}}};
}

// A model on a device with either way to decode.
struct Side {
  Side(const char *fusion, const model::Model &model, const Setting &setting = {})
      : context(plugin_with(fusion)),
        uploaded(context.device(), model, {.positions = setting.block_size * setting.sequence_blocks}),
        biases(setting.has_biases ? add_biases(model) : std::vector<std::vector<float>>()),
        session(uploaded, config(context, setting), setting.path) {}

  static bonsai_session_config config(check::Context &context, const Setting &setting) {
    bonsai_session_config config = check::usual_config(context, setting.kv, setting.block_size);
    config.max_tokens = 64;
    config.max_outputs = 64;
    config.max_blocks_per_sequence = setting.sequence_blocks;
    config.n_blocks = 2 * config.max_blocks_per_sequence;
    return config;
  }

  std::vector<std::vector<float>> add_biases(const model::Model &model) {
    std::vector<std::vector<float>> kept;
    float next = 0.25f;
    const auto vector = [&](uint64_t n) {
      std::vector<float> &values = kept.emplace_back(n);
      for (float &value : values) value = next = next > 0.5f ? next - 0.83f : next + 0.11f;
      return values.data();
    };
    const model::Config &shape = model.config;
    for (bonsai_layer_spec &layer : uploaded.layers) {
      layer.q_bias = vector(uint64_t{shape.heads} * shape.head_dim);
      layer.v_bias = vector(uint64_t{shape.kv_heads} * shape.head_dim);
      layer.o_bias = vector(shape.hidden);
    }
    return kept;
  }

  check::Context context;
  check::UploadedModel uploaded;
  std::vector<std::vector<float>> biases;
  check::Session session;
};

// Logits of tokens one by one behind a prompt in batches; from position `from` on, what comes before it being zeros.
std::vector<std::vector<float>> decode(check::Session &session, const std::vector<int32_t> &tokens, size_t prompt,
                                       uint32_t from) {
  const std::vector<uint32_t> blocks = some_blocks(session.config.max_blocks_per_sequence);
  std::vector<std::vector<float>> rows;
  for (size_t first = 0; first < prompt; first += 64) {
    const size_t n = std::min<size_t>(64, prompt - first);
    session.logits({tokens.data() + first, n}, from + static_cast<uint32_t>(first), blocks);
  }
  for (size_t i = prompt; i < tokens.size(); ++i) {
    rows.push_back(session.logits({tokens.data() + i, 1}, from + static_cast<uint32_t>(i), blocks).back());
  }
  return rows;
}

struct Case {
  const char *name;
  check::ModelShape shape;
  Setting setting = {};
  size_t prompt = 2, decoded = 4;
  uint32_t from = 0;
};

std::vector<Case> all_cases() {
  const check::ModelShape plain = {.layers = 3, .hidden = 256, .ffn = 384, .format = Format::kQ1_0_G128};
  const auto with = [&](auto edit) {
    check::ModelShape shape = plain;
    edit(shape);
    return shape;
  };
  return {
      {.name = "Plain", .shape = plain},
      {.name = "Ternary", .shape = with([](auto &shape) { shape.format = Format::kTQ2_0_G128; })},
      {.name = "RowsOfManySegments", .shape = with([](auto &shape) {
                                       shape.layers = 2;
                                       shape.hidden = 1152;
                                       shape.ffn = 1664;
                                     })},
      {.name = "TernaryRowsOfManySegments", .shape = with([](auto &shape) {
                                              shape.layers = 1;
                                              shape.ffn = 8448;  // more segments than a block has warps
                                              shape.format = Format::kTQ2_0_G128;
                                            })},
      {.name = "FewerTilesThanBlocks", .shape = with([](auto &shape) {
                                         shape.hidden = 128;
                                         shape.ffn = 128;
                                         shape.heads = 2;
                                         shape.kv_heads = 1;
                                       })},
      {.name = "HeadsOf128", .shape = with([](auto &shape) {
                               shape.head_dim = 128;
                               shape.heads = 6;
                               shape.kv_heads = 3;
                             })},
      {.name = "LargeGroups", .shape = with([](auto &shape) {
                                shape.heads = 16;
                                shape.kv_heads = 1;
                              })},
      {.name = "QuantizedKv", .shape = plain, .setting = {.kv = BONSAI_KV_Q8_0}},
      {.name = "QuantizedKvHeadsOf128",
       .shape = with([](auto &shape) {
         shape.head_dim = 128;
         shape.format = Format::kTQ2_0_G128;
       }),
       .setting = {.kv = BONSAI_KV_Q8_0}},
      {.name = "Biases", .shape = plain, .setting = {.has_biases = true}},
      {.name = "LayerByLayer", .shape = plain, .setting = {.path = Path::kLayers}},
      {.name = "SeveralSections", .shape = with([](auto &shape) { shape.layers = 2; }), .prompt = 254, .decoded = 5},
      // More pieces and kv heads than blocks.
      {.name = "MoreHeadsThanBlocks", .shape = with([](auto &shape) {
                                        shape.layers = 2;
                                        shape.hidden = 512;
                                        shape.heads = 16;
                                        shape.kv_heads = 16;
                                      })},
      // Nine sections, and a tenth that there is not.
      {.name = "SplitSections",
       .shape = with([](auto &shape) {
         shape.layers = 2;
         shape.heads = 16;
         shape.kv_heads = 1;
       }),
       .decoded = 3,
       .from = 2300},
      {.name = "SectionsThatBegin", .shape = with([](auto &shape) { shape.kv_heads = 1; }), .from = 508},
      {.name = "SectionsThatBeginInQuantizedKv",
       .shape = with([](auto &shape) { shape.kv_heads = 1; }),
       .setting = {.kv = BONSAI_KV_Q8_0},
       .from = 764},
      // More blocks than are kept at hand.
      {.name = "ManyBlocks",
       .shape = with([](auto &shape) {
         shape.layers = 1;
         shape.kv_heads = 1;
       }),
       .setting = {.block_size = 16, .sequence_blocks = 640},
       .decoded = 2,
       .from = 8300},
  };
}

class CudaTokenLayers : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Every, CudaTokenLayers, testing::ValuesIn(all_cases()),
                         [](const auto &info) { return std::string(info.param.name); });

TEST_P(CudaTokenLayers, HaveTheBytesOfSeparateKernels) {
  const Case &c = GetParam();
  const check::RandomModel random(c.shape);
  const std::vector<int32_t> tokens =
      check::random_tokens(static_cast<uint32_t>(c.prompt + c.decoded), c.shape.vocab, 5);
  std::vector<std::vector<float>> expected;
  uint64_t kernels_apart = 0;
  {
    Side apart("attention", random.model(), c.setting);
    fake::control().reset();
    expected = decode(apart.session, tokens, c.prompt, c.from);
    kernels_apart = fake::control().kernels();
  }
  for (uint64_t order = 0; order < (c.prompt > 2 ? 2 : 4); ++order) {
    fake::control().set_order(order);
    Side at_once("layers", random.model(), c.setting);
    fake::control().reset();
    EXPECT_EQ(decode(at_once.session, tokens, c.prompt, c.from), expected) << "order " << order;
    EXPECT_LT(fake::control().kernels(), kernels_apart);
  }
  fake::control().set_order(0);
}

// What a session is used for between tokens: other sequences, copies of blocks, a cache that goes out and comes back,
// states in the place of tokens. Each kernel finds its own in memory.
std::vector<std::vector<float>> use_in_turns(Side &side) {
  check::Session &session = side.session;
  std::vector<std::vector<float>> rows;
  const std::vector<uint32_t> first = {4, 9}, second = {21, 2};
  const auto decode_two = [&](int32_t token, uint32_t position) {
    for (const auto *blocks : {&first, &second}) {
      rows.push_back(session.logits({{token}}, position, *blocks).back());
      token += 7;
    }
  };
  session.logits({{1, 2, 3}}, 0, first);
  session.logits({{5, 2, 4}}, 0, second);
  for (uint32_t position = 3; position < 6; ++position) decode_two(static_cast<int32_t>(position), position);
  // One token of the second of two sequences.
  check::Batch batch;
  batch.block_table = {first, second};
  batch.add(11, 6, 1);
  check::Outputs outputs(session.model.model.config.vocab, session.model.model.config.hidden);
  outputs.logits(0);
  session.run(batch, outputs);
  rows.push_back(outputs[0].logits);
  bonsai_error error = check::empty_error();
  const uint32_t from = 4, to = 9;
  check::expect_ok("kv_copy", session.api.kv_copy(session.handle, &from, &to, 1, &error), error);
  rows.push_back(session.logits({{8}}, 6, {9, 4}).back());
  // Six tokens of a block, out and in again elsewhere.
  constexpr uint32_t kTokens = 6;
  const model::Config &shape = session.model.model.config;
  std::vector<std::byte> kv(size_t{2} * shape.layers * kTokens * shape.kv_heads * shape.head_dim * sizeof(uint16_t));
  const uint32_t out = 21, in = 30;
  check::expect_ok("kv_export", session.api.kv_export(session.handle, &out, 1, kTokens, kv.data(), kv.size(), &error),
                   error);
  check::expect_ok("kv_import", session.api.kv_import(session.handle, &in, 1, kTokens, kv.data(), kv.size(), &error),
                   error);
  rows.push_back(session.logits({{8}}, kTokens, {30, 31}).back());
  return rows;
}

TEST(CudaTokenLayersAre, AsGoodAsSeparateKernelsForAllThatASessionDoes) {
  const check::RandomModel random({.layers = 2, .hidden = 256, .ffn = 384, .format = Format::kQ1_0_G128});
  Side apart("attention", random.model());
  Side at_once("layers", random.model());
  EXPECT_EQ(use_in_turns(at_once), use_in_turns(apart));
}

// What a decoded token is on the device: the embedding, its layers, the rows that have outputs, their norm, the head,
// what comes of it; kernels for each step where the model has none of this kind, or more tokens come.
TEST(CudaTokenLayersAre, OneKernel) {
  check::ModelShape shape = {.layers = 3, .hidden = 256, .ffn = 384, .format = Format::kQ1_0_G128};
  const auto kernels_of = [&](const std::vector<int32_t> &tokens) {
    const check::RandomModel random(shape);
    Side side("layers", random.model());
    side.session.logits({{1, 2, 3}}, 0, kBlocks);
    fake::control().reset();
    side.session.logits(tokens, 3, kBlocks);
    return fake::control().kernels();
  };
  EXPECT_EQ(kernels_of({4}), 6u);
  EXPECT_EQ(kernels_of({4, 5}), 5 + 9 * 3u);
  shape.formats["ffn_down"] = Format::kTQ2_0_G128;
  EXPECT_EQ(kernels_of({4}), 5 + 9 * 3u);
  shape.formats = {};
  shape.head_dim = 96;
  shape.heads = 8;
  EXPECT_EQ(kernels_of({4}), 5 + 9 * 3u);
}

// cuda.fusion=auto has the first tokens run either way in turns, and then goes on with one of them; which one is faster
// on the emulator is nobody's business.
TEST(CudaTokenLayersAre, TriedBesideSeparateKernels) {
  constexpr uint32_t kTokens = 36;
  const check::RandomModel random(
      {.layers = 1, .hidden = 128, .ffn = 128, .heads = 2, .kv_heads = 1, .format = Format::kQ1_0_G128});
  Side apart("attention", random.model());
  Side tried("auto", random.model());
  std::vector<uint64_t> kernels;
  for (uint32_t i = 0; i < kTokens; ++i) {
    const int32_t token = static_cast<int32_t>(i * 5 % 97);
    const auto expected = apart.session.logits({{token}}, i, kBlocks);
    fake::control().reset();
    EXPECT_EQ(tried.session.logits({{token}}, i, kBlocks), expected) << i;
    kernels.push_back(fake::control().kernels());
  }
  constexpr uint64_t kApart = 5 + 9, kAtOnce = 5 + 1;
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(kernels[i], i / 8 % 2 == 0 ? kApart : kAtOnce) << i;
  for (uint32_t i = 32; i < kTokens; ++i) EXPECT_EQ(kernels[i], kernels[32]);
  EXPECT_TRUE(kernels[32] == kApart || kernels[32] == kAtOnce) << kernels[32];
}

// A driver may not record a launch whose blocks wait for each other. Layers are recorded one by one then, and no more
// is given up than that: graphs are what costs most to do without.
TEST(CudaTokenLayersAre, RecordedOneByOneWhereTheyCannotBeAtOnce) {
  constexpr uint32_t kTokens = 24;
  constexpr uint64_t kApart = 5 + 9 * 2, kAtOnce = 5 + 1;
  const check::RandomModel random({.layers = 2, .hidden = 256, .ffn = 384, .format = Format::kQ1_0_G128});
  std::vector<std::vector<std::vector<float>>> expected;
  {
    Side apart("attention", random.model());
    for (uint32_t i = 0; i < kTokens; ++i) expected.push_back(apart.session.logits({{7}}, i, kBlocks));
  }
  // The only token that runs at once is the first one to be asked to, since the second one's pass is to be recorded.
  for (const auto &[fusion, first] : std::map<const char *, uint32_t>{{"layers", 0}, {"auto", 8}}) {
    Side side(fusion, random.model());
    fake::control().capture_cooperative(0);
    for (uint32_t i = 0; i < kTokens; ++i) {
      fake::control().reset();
      EXPECT_EQ(side.session.logits({{7}}, i, kBlocks), expected[i]) << fusion << ", token " << i;
      EXPECT_EQ(fake::control().kernels(), i == first ? kAtOnce : kApart) << fusion << ", token " << i;
    }
    fake::control().capture_cooperative(1);
    EXPECT_EQ(fake::control().alive().graph_execs, 1u) << fusion;
    EXPECT_EQ(fake::control().misuse(), "") << fusion;
  }
}

// A profile has a layer's steps, and what lies between them, as one block noted them; it changes no byte.
TEST(CudaTokenLayersAre, InAProfileStepByStep) {
  constexpr uint32_t kLayers = 3;
  const check::ModelShape shape = {.layers = kLayers, .hidden = 256, .ffn = 384, .format = Format::kQ1_0_G128};
  const check::RandomModel random(shape);
  Side side("layers", random.model());
  side.session.logits({{1, 2, 3}}, 0, kBlocks);
  const auto expected = side.session.logits({{4}}, 3, kBlocks);
  bonsai_error error = check::empty_error();
  const auto profile = [&](bonsai_profile_action action, bonsai_profile *result) {
    check::expect_ok("profile", side.context.api().profile(side.context.device().handle(), action, result, &error),
                     error);
  };
  const auto begin = std::chrono::steady_clock::now();
  profile(BONSAI_PROFILE_START, nullptr);
  EXPECT_EQ(side.session.logits({{4}}, 3, kBlocks), expected);
  bonsai_profile found = {};
  found.struct_size = sizeof found;
  profile(BONSAI_PROFILE_STOP, &found);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  std::map<std::string, uint64_t> calls, bytes;
  double seconds = 0;
  for (uint32_t i = 0; i < found.n_phases; ++i) {
    EXPECT_GT(found.phases[i]->seconds, 0) << found.phases[i]->name;
    seconds += found.phases[i]->seconds;
    calls[found.phases[i]->name] = found.phases[i]->calls;
    bytes[found.phases[i]->name] = found.phases[i]->bytes;
  }
  const std::map<std::string, uint64_t> expected_calls = {{"attention", kLayers}, {"barriers", 5 * kLayers - 1},
                                                          {"down", kLayers},      {"embedding", 1},
                                                          {"gate_up", kLayers},   {"head", 1},
                                                          {"o", kLayers},         {"qkv", kLayers}};
  EXPECT_EQ(calls, expected_calls);
  EXPECT_LE(seconds, passed.count());
  EXPECT_EQ(side.session.logits({{4}}, 3, kBlocks), expected) << "without a profile again";
  EXPECT_EQ(bytes["gate_up"], kLayers * 768u * 512 / 128 * 18) << "rows of 256 columns are filled up to 512";
}

}  // namespace
}  // namespace bonsai::test
