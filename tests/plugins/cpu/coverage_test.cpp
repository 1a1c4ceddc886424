// The README's table of formats and tiers: measured here against the float64 judge, and compared with what it says.
// The promise of reproducibility is checked on the way: every tier gives the same bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "core/reference/reference.h"
#include "tests/plugins/cpu/backend_support.h"
#include "tests/quant/exact_dot.h"

namespace bonsai::test {
namespace {

using quant::Format;

constexpr uint32_t kRows = 64;     // of the embedding that are looked up: what a small session gives back at once
constexpr uint32_t kVectors = 50;  // of the GEMM: so many that every tier goes its own way
constexpr uint32_t kTokens = 20;   // of a layer's batch and of a forward pass: two KV blocks

constexpr const char *kTierNames[] = {"portable",        "avx2",      "avx2-vnni", "avx512", "avx512-panels",
                                      "avx512-panels32", "avx512-amx"};

// The table's columns of numbers.
enum Level { kDecode, kGemv, kGemm, kLayer, kForward, kLevels };
using Results = std::array<std::vector<float>, kLevels>;
using Truth = std::array<std::vector<double>, kLevels>;

// A random model that has whole blocks in every format, so that the formats' numbers can be compared.
TinyModel model_options(Format format, uint32_t layers) {
  return {.layers = layers, .hidden = 256, .ffn = 256, .heads = 4, .kv_heads = 2, .head_dim = 64, .format = format};
}

// With keys and values as they are: rounding them to F16 would hide what a float format itself costs.
bonsai_session_config session_config() {
  bonsai_session_config config = small_config();
  config.kv_dtype = BONSAI_KV_F32;
  return config;
}

// A tier of each name, in the table's order: the processor's own where it has it, else the emulated one.
std::vector<std::pair<std::string, Tier>> one_tier_of_each_name() {
  std::vector<std::pair<std::string, Tier>> chosen;
  const std::vector<Tier> tiers = testable_tiers();
  for (const std::string name : kTierNames) {
    const auto find = [&](const std::string &kernel) {
      return std::find_if(tiers.begin(), tiers.end(), [&](const Tier &tier) { return tier.kernel == kernel; });
    };
    auto found = find(name);
    if (found == tiers.end()) found = find(name + " (emulated)");
    if (found != tiers.end()) chosen.push_back({name, *found});
  }
  return chosen;
}

// Vectors (kVectors, columns) of values from -1 to 1, the same every time and everywhere.
std::vector<float> some_vectors(uint64_t columns) {
  std::vector<float> x;
  for (const int32_t value : some_tokens(static_cast<uint32_t>(kVectors * columns), 2049)) {
    x.push_back(static_cast<float>(value - 1024) / 1024);
  }
  return x;
}

// Rows of the embedding as the format's reference decoder gives them, (tokens, hidden).
std::vector<float> embedding_rows(const model::Model &model, const std::vector<int32_t> &tokens) {
  const quant::FormatTraits &traits = quant::traits(model.token_embd->format);
  const size_t hidden = model.config.hidden, row_bytes = quant::row_bytes(traits, hidden);
  std::vector<float> rows(tokens.size() * hidden);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::byte *row = model.token_embd->data.data() + static_cast<size_t>(tokens[i]) * row_bytes;
    traits.decode(row, rows.data() + i * hidden, hidden);
  }
  return rows;
}

// ------------------------------------------------------------------------------------------------- the judge's side

// W x for each of the vectors, (n, rows).
std::vector<double> judged_products(const gguf::Tensor &weight, const std::vector<float> &x) {
  const quant::FormatTraits &traits = quant::traits(weight.format);
  const uint64_t columns = weight.columns(), row_bytes = quant::row_bytes(traits, columns);
  const std::vector<double> exact(x.begin(), x.end());
  std::vector<double> y;
  for (uint64_t first = 0; first < x.size(); first += columns) {
    for (uint64_t row = 0; row < weight.rows(); ++row) {
      y.push_back(test::exact_dot(traits, weight.data.data() + row * row_bytes, exact.data() + first, columns));
    }
  }
  return y;
}

Truth judge(const model::Model &one_layer, const model::Model &whole) {
  const std::vector<int32_t> tokens = some_tokens(kTokens, kTinyTokens);
  const gguf::Tensor &matrix = *one_layer.layers[0].ffn_gate;
  std::vector<float> x = some_vectors(matrix.columns());
  Truth truth;
  const std::vector<float> rows = embedding_rows(one_layer, some_tokens(kRows, kTinyTokens));
  truth[kDecode].assign(rows.begin(), rows.end());
  truth[kGemm] = judged_products(matrix, x);
  x.resize(matrix.columns());
  truth[kGemv] = judged_products(matrix, x);
  reference::Evaluator layer(one_layer, reference::KvType::kF32), forward(whole, reference::KvType::kF32);
  layer.run(tokens).value();
  truth[kLayer] = layer.last_hidden();
  truth[kForward] = forward.run(tokens).value();
  return truth;
}

// ----------------------------------------------------------------------------------------------- the backend's side

// Embedding rows as a forward pass looks them up. The ABI shows no bare row, but norms can be chosen so that it does:
// with weights of 0 the layer adds 0 to the row, and 2^30 x / sqrt(mean(x²) + 2^60) is x to the last bit.
std::vector<float> look_up(OpenDevice &device, const model::Model &model) {
  const std::vector<float> zeros(model.config.hidden), scale(model.config.hidden, 0x1p30f);
  UploadedModel uploaded(device, model);
  uploaded.layers[0].attn_norm = uploaded.layers[0].ffn_norm = zeros.data();
  uploaded.spec.rms_eps = 0x1p60f;
  uploaded.spec.output_norm = scale.data();
  OpenSession session(uploaded, session_config());
  TestBatch batch;
  batch.block_table = {shuffled_blocks(4)};
  TestOutputs outputs(kTinyTokens, model.config.hidden);
  const std::vector<int32_t> tokens = some_tokens(kRows, kTinyTokens);
  for (uint32_t i = 0; i < kRows; ++i) {
    batch.add(tokens[i], i);
    outputs.hidden_state(i);
  }
  session.forward(batch, outputs);
  std::vector<float> rows;
  for (uint32_t i = 0; i < kRows; ++i) rows.insert(rows.end(), outputs[i].hidden.begin(), outputs[i].hidden.end());
  return rows;
}

// The gate's product with the first n vectors, (n, ffn).
std::vector<float> multiply(const UploadedModel &uploaded, uint32_t n) {
  const uint64_t rows = uploaded.model.config.ffn;
  const std::vector<float> x = some_vectors(uploaded.model.config.hidden);
  std::vector<float> y(n * rows);
  const bonsai_gemv_args args = {.struct_size = sizeof args,
                                 .n = n,
                                 .weight = uploaded.layers[0].gate->weight,
                                 .first_row = uploaded.layers[0].gate->first_row,
                                 .rows = rows,
                                 .x = x.data(),
                                 .y = y.data()};
  bonsai_error error = empty_error();
  require_ok(uploaded.device.api.gemv(uploaded.device.handle, &args, &error), error);
  return y;
}

// The last token's state after the first layer, (hidden).
std::vector<float> run_layer(UploadedModel &uploaded) {
  const std::vector<int32_t> tokens = some_tokens(kTokens, kTinyTokens);
  OpenSession session(uploaded, session_config());
  TestBatch batch;
  batch.block_table = {shuffled_blocks(2)};
  for (uint32_t i = 0; i < kTokens; ++i) batch.add(tokens[i], i);
  const std::vector<float> in = embedding_rows(uploaded.model, tokens);
  std::vector<float> states(in.size());
  const bonsai_batch view = batch.view();
  bonsai_error error = empty_error();
  require_ok(session.api.layer_encode(session.handle, 0, &view, in.data(), states.data(), &error), error);
  return {states.end() - uploaded.model.config.hidden, states.end()};
}

Results run(const Tier &tier, const model::Model &one_layer, const model::Model &whole) {
  OpenDevice device(tier.plugin, {{"cpu.threads", "1"}, {"cpu.isa", tier.isa}});
  EXPECT_EQ(device.status().kernel, tier.kernel) << "a tier is another in disguise";
  UploadedModel small(device, one_layer), large(device, whole);
  Results results;
  results[kDecode] = look_up(device, one_layer);
  results[kGemv] = multiply(small, 1);
  results[kGemm] = multiply(small, kVectors);
  results[kLayer] = run_layer(small);
  results[kForward] =
      OpenSession(large, session_config()).logits(some_tokens(kTokens, kTinyTokens), 0, shuffled_blocks(2));
  return results;
}

// --------------------------------------------------------------------------------------------------------- the table

// A layer's state as the judge shows it, after the output norm; in float64, so that only the layer's error is seen.
std::vector<double> output_norm(const std::vector<float> &state, const model::Model &model) {
  double squares = 0;
  for (const double value : state) squares += value * value;
  const double scale = 1 / std::sqrt(squares / model.config.hidden + model.config.rms_eps);
  std::vector<double> normed(state.size());
  for (size_t i = 0; i < state.size(); ++i) normed[i] = model.output_norm[i] * (state[i] * scale);
  return normed;
}

bool same_bytes(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double bound(Format format, int level) {
  if (level == kDecode) return 0;
  if (takes_floats(format)) return kFloatBound;
  return level == kGemv || level == kGemm ? 2e-2 : kQuantizedBound;
}

// Two digits: "1.7e-7". The judge's exp and cos come from the C library; their last bits cannot be seen here.
std::string cell(double error) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1e", error);
  std::string cell = text;
  if (const size_t zero = cell.find("e-0"); zero != std::string::npos) cell.erase(zero + 2, 1);
  return error == 0 ? "exact" : cell;
}

// One row of the table. Fails the test where a bound is broken or where tiers differ.
std::string measured_row(const quant::FormatTraits &traits) {
  static const char *const kNames[kLevels] = {"decode", "GEMV", "GEMM", "layer", "forward"};
  const LoadedModel one_layer(model_options(traits.format, 1)), whole(model_options(traits.format, 2));
  const Truth truth = judge(one_layer.model, whole.model);
  Results portable;
  std::string tiers;
  for (const auto &[name, tier] : one_tier_of_each_name()) {
    Results results = run(tier, one_layer.model, whole.model);
    if (tiers.empty()) portable = results;
    bool same = true;
    for (int level = 0; level < kLevels; ++level) {
      const bool equal = same_bytes(results[level], portable[level]);
      EXPECT_TRUE(equal) << traits.name << ": " << kNames[level] << " on " << tier.kernel << " is not portable's";
      same = same && equal;
    }
    if (same) tiers.append(tiers.empty() ? "" : ", ").append(name);
  }
  std::string row = "| ";
  row.append(traits.name).append(" |");
  for (int level = 0; level < kLevels; ++level) {
    EXPECT_EQ(portable[level].size(), truth[level].size());
    const double error = level == kLayer ? relative_error(output_norm(portable[level], one_layer.model), truth[level])
                                         : relative_error(portable[level], truth[level]);
    EXPECT_LE(error, bound(traits.format, level)) << traits.name << ": " << kNames[level];
    row.append(" ").append(cell(error)).append(" |");
  }
  return row.append(" ").append(tiers).append(" |\n");
}

std::string measured_table() {
  std::string table =
      "| format | decode | GEMV | GEMM | layer | forward | tiers |\n| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const quant::FormatTraits &traits : quant::formats()) table += measured_row(traits);
  return table;
}

// ---------------------------------------------------------------------------------------------------- the README

constexpr std::string_view kBegin = "<!-- coverage: made by cpu_coverage_test -->\n";
constexpr std::string_view kEnd = "<!-- /coverage -->\n";

// A text with what stands between the two markers replaced; empty if it does not have both.
std::string with_table(const std::string &text, const std::string &table) {
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return text.substr(0, begin + kBegin.size()) + table + text.substr(end);
}

std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Coverage, EveryFormatIsWithinItsBoundsOnEveryTierAsTheReadmeSays) {
  const std::string path = BONSAI_SOURCE_DIR "/README.md";
  const std::string table = measured_table();
  if (one_tier_of_each_name().size() < std::size(kTierNames)) {
    GTEST_SKIP() << "measured, but README.md's table is of x86-64 with AVX2: this machine cannot test all four tiers";
  }
  const std::string found = read(path), expected = with_table(found, table);
  ASSERT_FALSE(expected.empty()) << path << " does not have the lines that enclose the table of formats";
  if (std::getenv("BONSAI_UPDATE_README")) {
    std::ofstream(path, std::ios::binary) << expected;
  } else if (found != expected) {
    FAIL() << "README.md's table of formats is not what was measured: renew it with BONSAI_UPDATE_README=1 "
           << BONSAI_BINARY_DIR "/tests/cpu_coverage_test";
  }
}

}  // namespace
}  // namespace bonsai::test
