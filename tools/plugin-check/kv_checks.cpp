#include "tools/plugin-check/kv_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

// Runs tokens[begin, end) at their positions, in batches of `chunk`, and compares all their logits.
struct Span {
  uint32_t begin, end, chunk;
};

void run_span(Stage &stage, const std::vector<int32_t> &tokens, Span span, const std::vector<uint32_t> &blocks,
              Comparison &comparison, const std::string &what) {
  const Logits expected = stage.judge(std::span(tokens).first(span.end));
  for (uint32_t at = span.begin; at < span.end; at += span.chunk) {
    const uint32_t n = std::min(span.chunk, span.end - at);
    comparison.add_rows(what, stage.session.logits(std::span(tokens).subspan(at, n), at, blocks), expected, at);
  }
}

std::vector<int32_t> with_other_tail(const Stage &stage, std::vector<int32_t> tokens, uint32_t from, uint64_t seed) {
  const std::vector<int32_t> others = stage.tokens(static_cast<uint32_t>(tokens.size()), seed);
  std::copy(others.begin() + from, others.end(), tokens.begin() + from);
  return tokens;
}

// -------- Rollback

void check_rollback(Context &context) {
  Stage stage(context, narrow_shape(context.plainest_format()));
  const std::vector<int32_t> tokens = stage.tokens(70, 1), wrong = with_other_tail(stage, tokens, 25, 2);
  const std::vector<uint32_t> blocks = stage.take_blocks(70);
  Comparison comparison(stage.bound);
  run_span(stage, tokens, {0, 40, 40}, blocks, comparison, "before the rollback");
  run_span(stage, wrong, {25, 60, 20}, blocks, comparison, "rejected tokens");
  run_span(stage, tokens, {25, 30, 1}, blocks, comparison, "token by token after the rollback");
  run_span(stage, tokens, {30, 70, 13}, blocks, comparison, "in batches after the rollback");
  comparison.finish("positions that are written again");
}

// -------- Copies

void check_copy(Context &context) {
  context.need_sessions();
  skip_unless(context.api().kv_copy != nullptr, "kv_copy is not offered");
  Stage stage(context, narrow_shape(context.plainest_format()));
  // Three blocks, the last of them not full: fewer where blocks are large, since positions are few.
  const uint32_t block_size = stage.session.config.block_size;
  const uint32_t shared = std::clamp(3 * block_size, 8u, 400u) - 5, all = shared + 20;
  const std::vector<int32_t> tokens = stage.tokens(all, 1), others = with_other_tail(stage, tokens, shared, 2),
                             thirds = with_other_tail(stage, tokens, shared, 3);
  const std::vector<uint32_t> first = stage.take_blocks(all), second = stage.take_blocks(all),
                              third = stage.take_blocks(all);
  Comparison comparison(stage.bound);
  run_span(stage, tokens, {0, shared, 64}, first, comparison, "the original");

  // To the second sequence, and in the same call from there to the third: copies happen in order.
  const uint32_t n = blocks_for(shared, block_size);
  std::vector<uint32_t> sources(first.begin(), first.begin() + n), destinations(second.begin(), second.begin() + n);
  sources.insert(sources.end(), second.begin(), second.begin() + n);
  destinations.insert(destinations.end(), third.begin(), third.begin() + n);
  bonsai_error error = empty_error();
  expect_ok("kv_copy", context.api().kv_copy(stage.session.handle, sources.data(), destinations.data(), 2 * n, &error),
            error);
  run_span(stage, others, {shared, all, 7}, second, comparison, "the copy");
  run_span(stage, tokens, {shared, all, 20}, first, comparison, "the original after it was copied");
  run_span(stage, thirds, {shared, all, 20}, third, comparison, "the copy of the copy");
  comparison.finish("copied blocks");
}

// -------- Shared blocks

struct Branch {
  std::vector<int32_t> tokens;
  Logits expected;
  std::vector<uint32_t> blocks;
};

// The tokens of all branches at one position, in one batch.
void run_abreast(Stage &stage, const std::vector<Branch> &branches, uint32_t position, Comparison &comparison) {
  Batch batch;
  Outputs outputs = stage.outputs();
  for (uint32_t s = 0; s < branches.size(); ++s) {
    batch.block_table.push_back(branches[s].blocks);
    batch.add(branches[s].tokens[position], position, s);
    outputs.logits(s);
  }
  stage.session.run(batch, outputs);
  for (uint32_t s = 0; s < branches.size(); ++s) {
    comparison.add(fmt::format("sequence {}, whose first blocks others have too, position {}", s, position),
                   outputs[s].logits, branches[s].expected[position]);
  }
}

// Three sequences whose rows begin with the same full blocks, and that go on each for itself.
void check_shared(Context &context) {
  constexpr uint32_t kBranches = 3, kTail = 5;
  context.need_sessions();
  Stage stage(context, narrow_shape(context.plainest_format()));
  const uint32_t block_size = stage.session.config.block_size;
  const uint32_t shared = std::max(40 / block_size, 2u) * block_size, all = shared + kTail;
  skip_unless(all <= stage.uploaded.placement.positions, "two blocks of {} are more than the suite's models hold",
              block_size);
  const std::vector<int32_t> tokens = stage.tokens(all);
  const std::vector<uint32_t> prefix = stage.take_blocks(shared);
  Comparison comparison(stage.bound);
  run_span(stage, tokens, {0, shared, 64}, prefix, comparison, "the prefix");
  std::vector<Branch> branches(kBranches);
  for (uint32_t s = 0; s < kBranches; ++s) {
    branches[s].tokens = with_other_tail(stage, tokens, shared, 2 + s);
    branches[s].expected = stage.judge(branches[s].tokens);
    branches[s].blocks = prefix;
    for (const uint32_t block : stage.take_blocks(kTail)) branches[s].blocks.push_back(block);
  }
  for (uint32_t position = shared; position < all; ++position) run_abreast(stage, branches, position, comparison);
  comparison.finish("sequences that share blocks");
}

// -------- Export and import

const quant::FormatTraits &format_of(bonsai_kv_dtype dtype) {
  if (dtype == BONSAI_KV_F32) return quant::traits(quant::Format::kF32);
  return quant::traits(dtype == BONSAI_KV_F16 ? quant::Format::kF16 : quant::Format::kQ8_0);
}

uint64_t bytes_of_a_row(const Stage &stage) {  // K or V of one token and layer
  return quant::row_bytes(format_of(stage.kv), size_t{stage.config().kv_heads} * stage.config().head_dim);
}

uint64_t bytes_of_tokens(const Stage &stage, uint32_t n_tokens) {
  return 2ull * stage.config().layers * n_tokens * bytes_of_a_row(stage);
}

std::vector<std::byte> export_kv(Stage &stage, const std::vector<uint32_t> &blocks, uint32_t n_tokens) {
  constexpr std::byte kMark{0xA5};
  const uint64_t bytes = bytes_of_tokens(stage, n_tokens);
  std::vector<std::byte> data(bytes + 8, kMark);
  bonsai_error error = empty_error();
  expect_ok("kv_export",
            stage.session.api.kv_export(stage.session.handle, blocks.data(), static_cast<uint32_t>(blocks.size()),
                                        n_tokens, data.data(), bytes, &error),
            error);
  const bool kept = std::all_of(data.end() - 8, data.end(), [&](std::byte byte) { return byte == kMark; });
  expect(kept, "kv_export of {} tokens writes beyond its {} bytes", n_tokens, bytes);
  data.resize(bytes);
  return data;
}

void import_kv(Stage &stage, const std::vector<uint32_t> &blocks, uint32_t n_tokens,
               const std::vector<std::byte> &data) {
  bonsai_error error = empty_error();
  expect_ok("kv_import",
            stage.session.api.kv_import(stage.session.handle, blocks.data(), static_cast<uint32_t>(blocks.size()),
                                        n_tokens, data.data(), data.size(), &error),
            error);
}

void skip_unless_moved(Context &context) {
  context.need_sessions();
  skip_unless(context.api().kv_export && context.api().kv_import, "kv_export and kv_import are not both offered");
}

// From one session to another, whose blocks have the last size that the backend lists.
void check_move(Context &context, bonsai_kv_dtype kv) {
  const ModelShape shape = narrow_shape(context.plainest_format());
  Stage from(context, shape, {.kv = kv});
  Stage to(context, shape, {.kv = kv, .block_size = context.info().block_sizes.back()});
  const uint32_t moved = 45, all = 70;
  const std::vector<int32_t> tokens = from.tokens(all);
  const std::vector<uint32_t> source = from.take_blocks(all), destination = to.take_blocks(all);
  Comparison comparison(from.bound);
  run_span(from, tokens, {0, all, 50}, source, comparison, "before the export");
  const std::vector<std::byte> data = export_kv(from, source, moved);
  import_kv(to, destination, moved, data);
  expect(export_kv(to, destination, moved) == data, "kv {}: what was imported is exported with other bytes",
         kv_name(kv));
  run_span(to, tokens, {moved, all, 9}, destination, comparison, "after the import");
  comparison.finish(fmt::format("kv {}, moved to another session", kv_name(kv)));
}

void check_moves(Context &context) {
  skip_unless_moved(context);
  for (const bonsai_kv_dtype kv : context.info().kv_dtypes) check_move(context, kv);
}

// -------- What was there before

// Blocks as another sequence may leave them, whose keys and values were no numbers, behind the positions of this one.
void check_leftovers(Context &context) {
  skip_unless_moved(context);
  constexpr auto kNaN = std::byte{0xFF};  // in every type, as the scale of a Q8_0 block too
  const uint32_t all = 70, chunks = 43, most = 200;
  for (const bonsai_kv_dtype kv : context.info().kv_dtypes) {
    Stage stage(context, narrow_shape(context.plainest_format()), {.kv = kv});
    const std::vector<int32_t> tokens = stage.tokens(all);
    const std::vector<uint32_t> blocks = stage.take_blocks(all);
    const uint32_t held = std::min(static_cast<uint32_t>(blocks.size()) * stage.session.config.block_size, most);
    import_kv(stage, blocks, held, std::vector<std::byte>(bytes_of_tokens(stage, held), kNaN));
    Comparison comparison(stage.bound);
    run_span(stage, tokens, {0, chunks, 12}, blocks, comparison, "in batches");
    run_span(stage, tokens, {chunks, all, 1}, blocks, comparison, "token by token");
    comparison.finish(fmt::format("kv {}, in blocks that hold NaN behind what is written", kv_name(kv)));
  }
}

// -------- In flight

// A prompt in `blocks`, not waited for.
uint64_t submit_prompt(Stage &stage, const std::vector<int32_t> &tokens, const std::vector<uint32_t> &blocks) {
  Batch batch;
  batch.block_table = {blocks};
  for (uint32_t i = 0; i < tokens.size(); ++i) batch.add(tokens[i], i);
  return stage.session.submit(batch, stage.outputs());
}

// Each finds what was submitted before it, and changes what it did: copy, export and import behind a prompt.
void check_behind_submits(Context &context) {
  context.need_forward_with_tokens();
  const bonsai_backend_api &api = context.api();
  const bool copies = api.kv_copy != nullptr, moves = api.kv_export && api.kv_import;
  skip_unless(copies || moves, "kv_copy, and kv_export with kv_import, are not offered");
  Stage stage(context, narrow_shape(context.plainest_format()));
  const uint32_t n = 33, all = 40;
  const std::vector<int32_t> tokens = stage.tokens(all), prompt(tokens.begin(), tokens.begin() + n);
  const std::vector<uint32_t> first = stage.take_blocks(all), second = stage.take_blocks(all),
                              third = stage.take_blocks(all);
  Comparison comparison(stage.bound);
  const uint64_t ticket = submit_prompt(stage, prompt, first);
  bonsai_error error = empty_error();
  if (copies) {
    const uint32_t used = blocks_for(n, stage.session.config.block_size);
    expect_ok("kv_copy", api.kv_copy(stage.session.handle, first.data(), second.data(), used, &error), error);
  }
  const std::vector<std::byte> data = moves ? export_kv(stage, first, n) : std::vector<std::byte>();
  stage.session.wait(ticket);
  if (moves) {
    expect(export_kv(stage, first, n) == data, "kv_export behind a submit writes other bytes than after its wait");
    const uint64_t other = submit_prompt(stage, stage.tokens(n, 2), third);
    import_kv(stage, third, n, data);
    stage.session.wait(other);
    run_span(stage, tokens, {n, all, 3}, third, comparison, "imported behind a submit");
  }
  if (copies) run_span(stage, tokens, {n, all, 3}, second, comparison, "copied behind a submit");
  comparison.finish("keys and values that were moved behind a submit");
}

// -------- The canonical layout

std::vector<double> rms_norm(std::span<const double> x, std::span<const float> weight, double eps) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = weight[i] * x[i] * scale;
  return y;
}

// K and V of the first layer, without rotation: what position 0 stores.
struct KeyValue {
  std::vector<double> key, value;
};

KeyValue first_layer(const model::Model &model, int32_t token) {
  const model::LayerWeights &layer = model.layers[0];
  const std::vector<float> row = decoded_row(*model.token_embd, static_cast<uint64_t>(token));
  const double eps = model.config.rms_eps;
  const std::vector<double> h = rms_norm(std::vector<double>(row.begin(), row.end()), layer.attn_norm, eps);
  KeyValue result = {reference::Matrix(*layer.attn_k, false).multiply(h),
                     reference::Matrix(*layer.attn_v, false).multiply(h)};
  const size_t head_dim = model.config.head_dim;
  for (size_t at = 0; at < result.key.size(); at += head_dim) {
    const std::vector<double> head = rms_norm(std::span(result.key).subspan(at, head_dim), layer.k_norm, eps);
    std::copy(head.begin(), head.end(), result.key.begin() + static_cast<ptrdiff_t>(at));
  }
  return result;
}

// What is stored of these numbers, next to what would be if they were rounded exactly: half a step of a group's
// largest, 127 steps long, and the rounding of that to f16.
void expect_rounded_groups(std::string_view what, std::span<const float> stored, std::span<const double> exact) {
  constexpr size_t kGroup = 32;
  constexpr double kMost = 0.5 / 127 + 0x1p-11 + 1e-4;
  for (size_t first = 0; first < exact.size(); first += kGroup) {
    double largest = 0;
    for (size_t i = first; i < first + kGroup; ++i) largest = std::max(largest, std::abs(exact[i]));
    for (size_t i = first; i < first + kGroup; ++i)
      expect(std::abs(stored[i] - exact[i]) <= kMost * largest,
             "kv q8_0: {}, element {}: {} is stored of {} in a group whose largest is {}, expected the nearest of 255 "
             "steps",
             what, i, stored[i], exact[i], largest);
  }
}

// Layer by layer K, then V, each (n_tokens, n_kv_heads, head_dim).
void check_layout(Context &context, bonsai_kv_dtype kv) {
  Stage stage(context, narrow_shape(context.plainest_format()), {.kv = kv});
  const uint32_t n_tokens = 37;
  const std::vector<int32_t> tokens = stage.tokens(n_tokens);
  const std::vector<uint32_t> blocks = stage.take_blocks(n_tokens);
  stage.session.logits(tokens, 0, blocks);
  const std::vector<std::byte> data = export_kv(stage, blocks, n_tokens), prefix = export_kv(stage, blocks, 5);
  const uint64_t row = bytes_of_a_row(stage), planes = 2ull * stage.config().layers;
  for (uint64_t plane = 0; plane < planes; ++plane) {
    expect(std::memcmp(&data[plane * n_tokens * row], &prefix[plane * 5 * row], 5 * row) == 0,
           "the {} of layer {} differ between exports of {} and of 5 tokens", plane % 2 ? "values" : "keys", plane / 2,
           n_tokens);
  }
  const size_t width = size_t{stage.config().kv_heads} * stage.config().head_dim;
  const auto decoded = [&](uint64_t plane, uint32_t position) {
    std::vector<float> values(width);
    format_of(stage.kv).decode(&data[(plane * n_tokens + position) * row], values.data(), width);
    return values;
  };
  const double rounding = kv == BONSAI_KV_Q8_0 ? kQuantizedBound : kv == BONSAI_KV_F16 ? 1e-3 : 0;
  Comparison comparison(std::max(stage.bound, rounding));
  const bool rounds_exactly = kv == BONSAI_KV_Q8_0 && is_float(context.plainest_format());
  comparison.add("the first key", decoded(0, 0), first_layer(stage.random.model(), tokens[0]).key);
  for (uint32_t i = 0; i < n_tokens; ++i) {
    const KeyValue exact = first_layer(stage.random.model(), tokens[i]);
    comparison.add(fmt::format("value {}", i), decoded(1, i), exact.value);
    if (rounds_exactly) expect_rounded_groups(fmt::format("value {}", i), decoded(1, i), exact.value);
  }
  comparison.finish(fmt::format("kv {}, the first layer's exported keys and values", kv_name(kv)));
}

void check_layouts(Context &context) {
  skip_unless_moved(context);
  for (const bonsai_kv_dtype kv : context.info().kv_dtypes) check_layout(context, kv);
}

// Keys and values that are no numbers are stored as such: what is wrong must show.
void check_nan(Context &context) {
  skip_unless_moved(context);
  for (const bonsai_kv_dtype kv : context.info().kv_dtypes) {
    Stage stage(context, narrow_shape(context.plainest_format()), {.path = Path::kLayers, .kv = kv});
    const uint32_t n_tokens = 3, wrong = 1, hidden = stage.config().hidden;
    const std::vector<uint32_t> blocks = stage.take_blocks(n_tokens);
    Batch batch;
    batch.block_table = {blocks};
    for (uint32_t i = 0; i < n_tokens; ++i) batch.add(0, i);
    std::vector<float> in(n_tokens * hidden, 0.5f);
    in[wrong * hidden + 7] = std::numeric_limits<float>::quiet_NaN();
    const bonsai_batch view = batch.view();
    if (stage.session.api.layer_encode(stage.session.handle, 0, &view, in.data(), nullptr, nullptr) != BONSAI_OK)
      continue;  // a backend that looks may say so
    const std::vector<std::byte> data = export_kv(stage, blocks, n_tokens);
    const size_t width = size_t{stage.config().kv_heads} * stage.config().head_dim;
    std::vector<float> values(width);
    for (uint32_t plane = 0; plane < 2; ++plane) {
      format_of(kv).decode(&data[(plane * n_tokens + wrong) * bytes_of_a_row(stage)], values.data(), width);
      for (size_t i = 0; i < width; ++i)
        expect(std::isnan(values[i]), "kv {}: element {} of a {} that is NaN throughout is stored as {}", kv_name(kv),
               i, plane == 0 ? "key" : "value", values[i]);
    }
  }
}

}  // namespace

void add_kv_checks(std::vector<Check> &checks) {
  checks.push_back({"kv.rollback", "a position that is written again is replaced", check_rollback});
  checks.push_back({"kv.copy", "copied blocks continue as the original, and alone", check_copy});
  checks.push_back({"kv.shared", "sequences may share blocks that none of them writes", check_shared});
  checks.push_back({"kv.leftovers",
                    "what lies in a block behind a sequence's positions counts for nothing, NaN included",
                    check_leftovers});
  checks.push_back({"kv.move", "an exported cache continues in another session", check_moves});
  checks.push_back(
      {"kv.in-flight", "copies, exports and imports run after what was submitted before", check_behind_submits});
  checks.push_back({"kv.layout", "exports are in the canonical layout, rounded to the nearest", check_layouts});
  checks.push_back({"kv.nan", "keys and values that are NaN are stored as NaN", check_nan});
}

}  // namespace bonsai::check
