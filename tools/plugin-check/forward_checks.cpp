#include "tools/plugin-check/forward_checks.h"

#include <algorithm>
#include <array>

#include "tools/plugin-check/environment.h"
#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

using quant::Format;
using quant::FormatTraits;

constexpr std::array<uint32_t, 11> kBatchSizes = {1, 2, 3, 7, 8, 9, 31, 32, 33, 128, 512};
constexpr uint32_t kDecodeSteps = 3;

const char *path_name(Path path) { return path == Path::kForward ? "forward" : "layers"; }

std::string describe(const Stage &stage) { return fmt::format("kv {}, {}", kv_name(stage.kv), path_name(stage.path)); }

// -------- Batches

// `n` tokens over sequences, in an order that follows neither sequence nor position, then a few decode steps of all.
class SplitBatch {
 public:
  SplitBatch(Stage &stage, uint32_t n, uint32_t n_sequences) : stage_(stage), n_(n), lengths_(n_sequences, 0) {
    stage_.recycle_blocks();
    const uint32_t longest = (n + n_sequences - 1) / n_sequences + kDecodeSteps;
    for (uint32_t s = 0; s < n_sequences; ++s) {
      tokens_.push_back(stage.tokens(longest, n * 10 + s));
      expected_.push_back(stage.judge(tokens_.back()));
      blocks_.push_back(stage.take_blocks(longest));
    }
  }

  void compare(Comparison &comparison) {
    const auto n_sequences = static_cast<uint32_t>(lengths_.size());
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < n_; ++i) order.push_back(i % n_sequences);
    run(order, comparison);
    for (uint32_t step = 0; step < kDecodeSteps; ++step) {
      order.clear();
      for (uint32_t s = 0; s < n_sequences; ++s) order.push_back(s);
      run(order, comparison);
    }
  }

 private:
  struct Place {
    uint32_t sequence, position;
  };

  // One batch that appends a token to each of these sequences.
  void run(const std::vector<uint32_t> &order, Comparison &comparison) {
    std::vector<Place> places;
    for (const uint32_t sequence : order) places.push_back({sequence, lengths_[sequence]++});
    if (lengths_.size() > 1) shuffle_.shuffle(places);
    Batch batch;
    batch.block_table = blocks_;
    Outputs outputs = stage_.outputs();
    for (const auto &[sequence, position] : places) {
      outputs.logits(batch.size());
      batch.add(tokens_[sequence][position], position, sequence);
    }
    stage_.session.run(batch, outputs);
    for (uint32_t i = 0; i < places.size(); ++i) {
      const auto &[sequence, position] = places[i];
      comparison.add(
          fmt::format("{} tokens, sequence {} of {}, position {}", batch.size(), sequence, lengths_.size(), position),
          outputs[i].logits, expected_[sequence][position]);
    }
  }

  Stage &stage_;
  uint32_t n_;
  Random shuffle_{5};
  std::vector<uint32_t> lengths_;
  std::vector<std::vector<int32_t>> tokens_;
  std::vector<Logits> expected_;
  std::vector<std::vector<uint32_t>> blocks_;
};

void compare_batches(Stage &stage, std::span<const uint32_t> sizes) {
  for (const uint32_t n : sizes) {
    Comparison comparison(stage.bound);
    SplitBatch(stage, n, 1).compare(comparison);
    if (n > 1) SplitBatch(stage, n, std::min(n, 5u)).compare(comparison);
    comparison.finish(fmt::format("batches of {}, {}", n, describe(stage)));
  }
}

void check_batches(Context &context, Path path) {
  context.need(path);
  Stage stage(context, narrow_shape(context.plainest_format()), {.path = path});
  compare_batches(stage, kBatchSizes);
}

// -------- Norms

// States that are small beside the square root of rms_eps, which real models' are not: there it hardly counts.
void check_large_eps(Context &context, Path path) {
  context.need(path);
  ModelShape shape = narrow_shape(context.plainest_format());
  shape.rms_eps = 0.1f;
  shape.edit = [](const std::string &part, std::span<float> weights) {
    if (part == "token_embd") std::ranges::for_each(weights, [](float &weight) { weight *= 0.1f; });
  };
  Stage stage(context, shape, {.path = path});
  Comparison comparison(stage.bound);
  SplitBatch(stage, 9, 1).compare(comparison);
  comparison.finish(fmt::format("rms_eps {}, {}", shape.rms_eps, describe(stage)));
}

// -------- Long contexts

// Positions beyond what an attention kernel may keep in one piece, or read in one go: in large batches and token by
// token, of each batch the last row.
void check_long_context(Context &context, Path path) {
  context.need(path);
  constexpr uint32_t kPositions = 2304, kChunk = 512, kSteps = 6;
  Stage stage(context, narrow_shape(context.plainest_format()), {.path = path, .placement = {.positions = kPositions}});
  const std::vector<int32_t> tokens = stage.tokens(kPositions);
  const Logits expected = stage.judge(tokens);
  const std::vector<uint32_t> blocks = stage.take_blocks(kPositions);
  Comparison comparison(stage.bound);
  for (uint32_t begin = 0; begin < kPositions;) {
    const uint32_t end = std::min(begin + kChunk, kPositions - kSteps), n = end > begin ? end - begin : 1;
    Batch batch;
    batch.block_table = {blocks};
    for (uint32_t i = 0; i < n; ++i, ++begin) batch.add(tokens[begin], begin);
    Outputs outputs = stage.outputs();
    outputs.logits(n - 1);
    stage.session.run(batch, outputs);
    comparison.add(fmt::format("position {}", begin - 1), outputs[0].logits, expected[begin - 1]);
  }
  comparison.finish(fmt::format("a context of {}, {}", kPositions, describe(stage)));
}

// -------- Formats

constexpr std::array<uint32_t, 3> kFewBatchSizes = {1, 8, 33};

void check_format(Context &context, Format format, Path path) {
  context.need(path);
  skip_unless(context.multiplies(format), "{} matrices are not claimed", quant::traits(format).name);
  ModelShape shape;
  shape.format = format;
  Stage stage(context, shape, {.path = path});
  compare_batches(stage, kFewBatchSizes);
}

void check_format_exhaustively(Context &context, Format format) {
  context.need_sessions();
  skip_unless(context.multiplies(format), "{} matrices are not claimed", quant::traits(format).name);
  ModelShape shape;
  shape.format = format;
  for (const bonsai_kv_dtype kv : context.info().kv_dtypes) {
    for (const Path path : {Path::kLayers, Path::kForward}) {
      if (path == Path::kForward && context.best_path() != path) continue;
      Stage stage(context, shape, {.path = path, .kv = kv});
      compare_batches(stage, kBatchSizes);
    }
  }
}

// The embedding alone: with no contribution of any layer, the normed hidden state is its row's.
void check_embedding(Context &context, Format format) {
  context.need(Path::kForward);
  skip_unless(context.looks_up(format), "{} embeddings are not claimed", quant::traits(format).name);
  ModelShape shape;
  shape.format = context.plainest_format();
  shape.formats = {{"token_embd", format}};
  shape.edit = [](const std::string &part, std::span<float> weights) {
    if (part == "attn_output" || part == "ffn_down") std::fill(weights.begin(), weights.end(), 0.0f);
  };
  Stage stage(context, shape);
  const uint32_t last = shape.vocab - 1;
  const std::vector<int32_t> tokens = {0, static_cast<int32_t>(last), 1, 32, 0, 15, 16, 17, 64, 95};
  Batch batch;
  batch.block_table = {stage.take_blocks(10)};
  Outputs outputs = stage.outputs();
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    batch.add(tokens[i], i);
    outputs.hidden_state(i);
  }
  stage.session.run(batch, outputs);
  const Logits expected = judge_hidden(stage.random.model(), stage.kv, tokens);
  Comparison comparison(kFloatBound);
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    comparison.add(fmt::format("row {} of the embedding", tokens[i]), outputs[i].hidden, expected[i]);
  }
  comparison.finish("embedding rows");
}

// Every claimed format in turn for the parts of a layer, so that stacked weights are of several.
void check_mixed_formats(Context &context) {
  context.need_sessions();
  std::vector<Format> claimed;
  for (const FormatTraits &traits : quant::formats()) {
    if (context.multiplies(traits.format)) claimed.push_back(traits.format);
  }
  for (size_t first = 0; first < claimed.size(); ++first) {
    const auto turn = [&](size_t i) { return claimed[(first + i) % claimed.size()]; };
    ModelShape shape;
    shape.format = turn(0);
    shape.formats = {
        {"attn_k", turn(1)}, {"attn_v", turn(2)}, {"ffn_up", turn(3)}, {"ffn_down", turn(4)}, {"output", turn(5)}};
    Stage stage(context, shape);
    compare_batches(stage, std::array{9u});
  }
}

void check_tied(Context &context, Path path) {
  context.need(path);
  const Format format = context.plainest_format();
  skip_unless(context.looks_up(format), "{} embeddings are not claimed", quant::traits(format).name);
  ModelShape shape = narrow_shape(format);
  shape.tied = true;
  Stage stage(context, shape, {.path = path});
  compare_batches(stage, kFewBatchSizes);
}

// -------- Shapes

void check_heads(Context &context) {
  context.need_sessions();
  struct Heads {
    uint32_t heads, kv_heads, head_dim;
  };
  Shapes shapes;
  constexpr std::array kShapes = {Heads{4, 4, 32}, Heads{4, 1, 32},  Heads{8, 2, 64},
                                  Heads{6, 2, 64}, Heads{16, 2, 32}, Heads{2, 1, 128},
                                  Heads{4, 2, 96}, Heads{2, 1, 192}, Heads{2, 1, 256}};
  for (const auto &[heads, kv_heads, head_dim] : kShapes) {
    ModelShape shape = narrow_shape(context.plainest_format());
    shape.heads = heads;
    shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    if (heads * head_dim % quant::traits(shape.format).block_weights != 0) continue;
    shapes.run([&] {
      Stage stage(context, shape);
      compare_batches(stage, std::array{33u});
    });
  }
  shapes.finish();
}

// A layer of Qwen3-0.6B: a backend may refuse shapes, but not all that models have.
void check_ordinary(Context &context) {
  context.need_sessions();
  ModelShape shape;
  shape.hidden = 1024;
  shape.ffn = 3072;
  shape.heads = 16;
  shape.kv_heads = 8;
  shape.head_dim = 128;
  shape.format = context.plainest_format();
  expect_served_all_the_same("a layer of Qwen3-0.6B", [&] {
    Stage stage(context, shape);
    const std::vector<int32_t> tokens = stage.tokens(3);
    Comparison comparison(stage.bound);
    comparison.add_rows("a layer of Qwen3-0.6B", stage.session.logits(tokens, 0, stage.take_blocks(3)),
                        stage.judge(tokens));
    comparison.finish("a layer of Qwen3-0.6B");
  });
}

void check_environment(Context &usual) {
  usual.need_sessions();
  under_unusual_caller([&] {
    Context context(usual.plugin());
    Stage stage(context, narrow_shape(context.plainest_format()));
    compare_batches(stage, std::array{9u});
  });
}

void check_yarn(Context &context) {
  context.need_sessions();
  ModelShape shape = narrow_shape(context.plainest_format());
  shape.yarn_factor = 4;
  Stage stage(context, shape);
  compare_batches(stage, std::array{128u});
}

void check_kv_dtype(Context &context, bonsai_kv_dtype kv) {
  context.need_sessions();
  skip_unless(context.stores(kv), "KV dtype {} is not offered", kv_name(kv));
  for (const uint32_t block_size : context.info().block_sizes) {
    Stage stage(context, narrow_shape(context.plainest_format()), {.kv = kv, .block_size = block_size});
    compare_batches(stage, std::array{7u, 128u});
  }
}

// Separate or stacked, copied or borrowed.
void check_placements(Context &context) {
  context.need_sessions();
  for (const bool stacked : {false, true}) {
    for (const bool borrowed : {false, true}) {
      Stage stage(context, narrow_shape(context.plainest_format()),
                  {.placement = {.stacked = stacked, .borrowed = borrowed}});
      compare_batches(stage, std::array{9u});
    }
  }
}

// A slice is a slice, also where its rows are looked up.
void check_ends_together(Context &context) {
  context.need_forward_with_tokens();
  Stage stage(context, narrow_shape(context.plainest_format()), {.placement = {.ends_together = true}});
  compare_batches(stage, std::array{9u});
}

// -------- A session of some of the layers

void check_pieces(Context &context) {
  context.need_sessions();
  ModelShape shape = narrow_shape(context.plainest_format());
  shape.layers = 3;
  const RandomModel random(shape);
  const bonsai_kv_dtype kv = context.plainest_kv();
  const bonsai_session_config config = usual_config(context, kv);
  UploadedModel front(context.device(), random.model(), {.layers = 1, .embedding = false, .head = false});
  UploadedModel back(context.device(), random.model(), {.first_layer = 1, .layers = 2, .embedding = false});
  Session front_session(front, config, Path::kLayers), back_session(back, config, context.best_path());

  const std::vector<int32_t> tokens = random_tokens(40, shape.vocab, 1);
  Batch batch;
  batch.block_table.resize(1);
  for (uint32_t block = 40 / config.block_size + 1; block-- > 0;) batch.block_table[0].push_back(block);
  Outputs outputs(shape.vocab, shape.hidden);
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    batch.add(tokens[i], i);
    outputs.logits(i);
  }
  const std::vector<float> in = embed(random.model(), tokens);
  batch.hidden.resize(in.size());
  const bonsai_batch view = batch.view();
  bonsai_error error = empty_error();
  expect_ok("layer_encode",
            context.api().layer_encode(front_session.handle, 0, &view, in.data(), batch.hidden.data(), &error), error);
  back_session.run(batch, outputs);
  const Logits expected = judge(random.model(), kv, tokens);
  Comparison comparison(error_bound(shape.format));
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    comparison.add(fmt::format("position {}", i), outputs[i].logits, expected[i]);
  }
  comparison.finish("layer 0 in one session, layers 1 and 2 and the head in another");
}

void add_format_checks(const FormatTraits &traits, std::vector<Check> &checks) {
  const Format format = traits.format;
  const std::string name(traits.name);
  checks.push_back({"layers." + name, "a layer and a head agree with the judge (level 1)",
                    [format](Context &context) { check_format(context, format, Path::kLayers); }});
  checks.push_back({"forward." + name, "a forward pass agrees with the judge (level 2)",
                    [format](Context &context) { check_format(context, format, Path::kForward); }});
  checks.push_back({"embedding." + name, "rows are looked up exactly",
                    [format](Context &context) { check_embedding(context, format); }});
  checks.push_back({"forward." + name + ".exhaustive", "batches of every size, KV dtype and level agree with the judge",
                    [format](Context &context) { check_format_exhaustively(context, format); }, Extent::kExhaustive});
}

}  // namespace

void add_forward_checks(std::vector<Check> &checks) {
  for (const FormatTraits &traits : quant::formats()) add_format_checks(traits, checks);
  checks.push_back({"layers.batches", "batches of every size over several sequences agree with the judge (level 1)",
                    [](Context &context) { check_batches(context, Path::kLayers); }});
  checks.push_back({"forward.batches", "batches of every size over several sequences agree with the judge (level 2)",
                    [](Context &context) { check_batches(context, Path::kForward); }});
  checks.push_back({"layers.eps", "norms have the model's rms_eps (level 1)",
                    [](Context &context) { check_large_eps(context, Path::kLayers); }});
  checks.push_back({"forward.eps", "norms have the model's rms_eps (level 2)",
                    [](Context &context) { check_large_eps(context, Path::kForward); }});
  checks.push_back({"layers.long", "a context of 2,304 positions agrees with the judge (level 1)",
                    [](Context &context) { check_long_context(context, Path::kLayers); }});
  checks.push_back({"forward.long", "a context of 2,304 positions agrees with the judge (level 2)",
                    [](Context &context) { check_long_context(context, Path::kForward); }});
  checks.push_back({"forward.mixed", "a layer's matrices may have different dtypes", check_mixed_formats});
  checks.push_back({"layers.tied", "layers take states from the host, whether or not the session has the embedding",
                    [](Context &context) { check_tied(context, Path::kLayers); }});
  checks.push_back({"forward.tied", "one weight may be embedding and head",
                    [](Context &context) { check_tied(context, Path::kForward); }});
  checks.push_back({"forward.ordinary", "a shape that models have is served", check_ordinary});
  checks.push_back({"forward.heads", "heads share KV heads as the model says", check_heads});
  checks.push_back({"forward.yarn", "the host's RoPE tables are used, scaling included", check_yarn});
  checks.push_back(
      {"forward.placements", "separate, stacked, copied and borrowed weights mean the same", check_placements});
  checks.push_back({"forward.slices", "embedding and head may be rows of one weight", check_ends_together});
  checks.push_back({"forward.environment", "a forward pass is right in any floating-point environment of the caller's",
                    check_environment});
  checks.push_back({"forward.pieces", "a session may hold any run of layers", check_pieces});
  for (const bonsai_kv_dtype kv : {BONSAI_KV_F16, BONSAI_KV_Q8_0, BONSAI_KV_F32}) {
    checks.push_back({std::string("kv.") + kv_name(kv), "attention reads the rounded K and V, in blocks of every size",
                      [kv](Context &context) { check_kv_dtype(context, kv); }});
  }
}

}  // namespace bonsai::check
