#include "tests/plugins/cuda/attention/attention_support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

namespace bonsai::cuda {
namespace {

constexpr uint32_t kLayers = 2, kLayer = 1;  // attention is over the second of two

uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

std::vector<float> random_numbers(uint32_t n, uint64_t seed, float deviation) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> numbers(n);
  for (float &number : numbers) number = normal(random);
  return numbers;
}

uint32_t blocks_of(const std::vector<uint32_t> &lengths, uint32_t block_size) {
  uint32_t blocks = 3;  // that nobody has
  for (uint32_t length : lengths) blocks += divide_up(length, block_size);
  return blocks;
}

KvPool pool_shape(const AttentionShape &shape, const std::vector<uint32_t> &lengths) {
  return {.data = nullptr,
          .dtype = shape.dtype,
          .head_dim = shape.head_dim,
          .kv_heads = shape.kv_heads,
          .block_size = shape.block_size,
          .n_blocks = blocks_of(lengths, shape.block_size)};
}

float score_scale(const AttentionShape &shape) {
  return std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(shape.head_dim));
}

// Tokens as a batch has them.
struct TokenArrays {
  std::vector<uint32_t> positions, sequences;
  explicit TokenArrays(const std::vector<Token> &tokens) {
    for (const Token &token : tokens) {
      positions.push_back(token.position);
      sequences.push_back(token.sequence);
    }
  }
};

}  // namespace

std::string name_of(const AttentionShape &shape) {
  return fmt::format("{}_{}x{}_{}_block{}", dtype_name(shape.dtype), shape.kv_heads, shape.group, shape.head_dim,
                     shape.block_size);
}

Sequences::Sequences(const AttentionShape &shape, std::vector<uint32_t> lengths)
    : shape_(shape),
      lengths_(std::move(lengths)),
      columns_(divide_up(std::ranges::max(lengths_), shape.block_size) + 1),
      pool_(pool_shape(shape, lengths_), kLayers),
      block_table_(columns_ * lengths_.size(), ~0u) {
  std::vector<uint32_t> blocks(pool_.shape().n_blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(7));
  auto next = blocks.begin();
  for (size_t i = 0; i < lengths_.size(); ++i) {
    for (uint32_t k = 0; k < divide_up(lengths_[i], shape.block_size); ++k) block_table_[i * columns_ + k] = *next++;
    fill(static_cast<uint32_t>(i));
  }
}

uint32_t Sequences::block_of(const Token &token) const {
  return block_table_[token.sequence * columns_ + token.position / shape_.block_size];
}

// Elements of very different size, along the head and along the positions.
void Sequences::fill(uint32_t sequence) {
  for (uint32_t position = 0; position < lengths_[sequence]; ++position) {
    for (uint32_t plane = 0; plane < 2 * shape_.kv_heads; ++plane) {
      const uint64_t seed = (uint64_t{sequence} << 40) + (uint64_t{position} << 16) + plane;
      std::vector<float> head = random_numbers(shape_.head_dim, seed, position % 7 == 3 ? 3.0f : 0.8f);
      if (plane % 2 == 1 && position % 5 == 1) std::ranges::for_each(head, [](float &x) { x *= 0x1p-12f; });
      pool_.write({kLayer, block_of({sequence, position}), plane / 2, plane % 2}, position % shape_.block_size,
                  encode_head(shape_.dtype, head));
    }
  }
}

void Sequences::store(const Token &token, const std::vector<float> &key, const std::vector<float> &value) {
  for (uint32_t kv_head = 0; kv_head < shape_.kv_heads; ++kv_head) {
    const uint32_t block = block_of(token), slot = token.position % shape_.block_size;
    pool_.write({kLayer, block, kv_head, 0}, slot, encode_head(shape_.dtype, key));
    pool_.write({kLayer, block, kv_head, 1}, slot, encode_head(shape_.dtype, value));
  }
}

float *Sequences::query(const Token &token, float *to) const {
  const uint64_t seed = (uint64_t{1} << 60) + (uint64_t{token.sequence} << 32) + token.position;
  const std::vector<float> numbers = random_numbers(shape_.heads() * shape_.head_dim, seed, query_size_);
  return std::copy(numbers.begin(), numbers.end(), to);
}

std::vector<float> Sequences::queries(const std::vector<Token> &tokens) const {
  std::vector<float> queries(tokens.size() * row_width(), NAN);
  for (size_t i = 0; i < tokens.size(); ++i) query(tokens[i], &queries[i * row_width()]);
  return queries;
}

std::vector<float> Sequences::attend(const std::vector<Token> &tokens, const Circumstances &circumstances) const {
  return launch(tokens, queries(tokens), nullptr, {}, circumstances);
}

namespace {

// Memory for the forms of n tokens, aligned.
struct PackedMemory {
  PackedMemory(const ActivationForms &forms, uint64_t n, uint64_t columns)
      : bytes(packed_activation_bytes(forms, n, columns)),
        quads(bytes / sizeof(Quad)),
        packed(place_activations(forms, reinterpret_cast<std::byte *>(quads.data()), n, columns)) {}
  std::vector<std::byte> content() const {
    const auto *begin = reinterpret_cast<const std::byte *>(quads.data());
    return {begin, begin + bytes};
  }

  size_t bytes;
  std::vector<Quad> quads;
  PackedActivations packed;
};

}  // namespace

std::vector<std::byte> Sequences::attend_packing(const std::vector<Token> &tokens, const ActivationForms &forms,
                                                 const Circumstances &circumstances) const {
  const PackedMemory memory(forms, tokens.size(), uint64_t{shape_.heads()} * shape_.head_dim);
  launch(tokens, queries(tokens), nullptr, memory.packed, circumstances);
  return memory.content();
}

std::vector<std::byte> Sequences::attend_and_pack(const std::vector<Token> &tokens, const ActivationForms &forms,
                                                  const Circumstances &circumstances) const {
  const uint32_t columns = shape_.heads() * shape_.head_dim;
  const PackedMemory memory(forms, tokens.size(), columns);
  const std::vector<float> y = attend(tokens, circumstances);
  const QuantizeArguments arguments = {.x = y.data(),
                                       .picked = nullptr,
                                       .weight = nullptr,
                                       .y = nullptr,
                                       .packed = memory.packed,
                                       .x_stride = columns,
                                       .columns = columns,
                                       .chunk_columns = static_cast<uint32_t>(padded_columns(columns)),
                                       .eps = 0};
  emulation::launch({"activations.cu", "quantize"}, {static_cast<uint32_t>(tokens.size()), 1}, kActivationThreads, 0,
                    &arguments);
  return memory.content();
}

std::vector<float> Sequences::prepare_and_attend(const std::vector<Token> &tokens, Launches launches,
                                                 const Circumstances &circumstances) {
  const auto n = static_cast<uint32_t>(tokens.size());
  std::vector<float> qkv = random_numbers(n * row_width(), 11, 1.0f);
  const std::vector<float> bias = random_numbers(row_width(), 12, 0.2f),
                           norms = random_numbers(2 * shape_.head_dim, 13, 1.0f),
                           rope = random_numbers(2 * std::ranges::max(lengths_) * shape_.head_dim, 14, 0.7f);
  const bool is_one = launches == Launches::kOne;
  PrepareHeadsArguments heads = {.qkv = qkv.data(),
                                 .bias = bias.data(),
                                 .q_norm = norms.data(),
                                 .k_norm = norms.data() + shape_.head_dim,
                                 .rope_cos = rope.data(),
                                 .rope_sin = rope.data() + rope.size() / 2,
                                 .positions = nullptr,
                                 .sequences = nullptr,
                                 .block_table = block_table_.data(),
                                 .pool = pool_.shape(),
                                 .blocks_per_sequence = columns_,
                                 .layer = kLayer,
                                 .heads = shape_.heads(),
                                 .rope_dim = shape_.head_dim / 4 * 2,
                                 .rms_eps = 1e-6f};
  if (is_one) return launch(tokens, qkv, &heads, {}, circumstances);
  const TokenArrays arrays(tokens);
  heads.positions = arrays.positions.data();
  heads.sequences = arrays.sequences.data();
  constexpr uint32_t kHeads = kPrepareThreads / 32;
  emulation::launch({"rope.cu", "prepare_heads", circumstances.order},
                    {n, divide_up(shape_.heads() + 2 * shape_.kv_heads, kHeads)}, kPrepareThreads, 0, &heads);
  return launch(tokens, qkv, nullptr, {}, circumstances);
}

std::vector<float> Sequences::launch(const std::vector<Token> &tokens, const std::vector<float> &qkv,
                                     const PrepareHeadsArguments *heads, const PackedActivations &packed,
                                     const Circumstances &circumstances) const {
  const auto n = static_cast<uint32_t>(tokens.size());
  const TokenArrays of_tokens(tokens);
  std::vector<float> y(size_t{n} * shape_.heads() * shape_.head_dim, NAN);

  AttentionPlanner planner({.pool = pool_.shape(),
                            .heads = shape_.heads(),
                            .max_tokens = n,
                            .max_positions = std::ranges::max(lengths_),
                            .multiprocessors = circumstances.multiprocessors,
                            .shared_bytes = circumstances.shared_bytes,
                            .multiprocessor_shared_bytes = circumstances.shared_bytes + 1024});
  std::vector<Quad> arrays(planner.plan_bytes() / sizeof(Quad));
  std::vector<Quad> partials(planner.partial_bytes() / sizeof(Quad) + 1, {~0u, ~0u, ~0u, ~0u});
  auto *const array_bytes = reinterpret_cast<std::byte *>(arrays.data());
  auto *const partial_bytes = reinterpret_cast<std::byte *>(partials.data());
  const AttentionPlan plan = planner.plan(of_tokens.positions, of_tokens.sequences, array_bytes);

  AttendArguments arguments = {
      .pool = pool_.shape(),
      .queries = qkv.data(),
      .y = y.data(),
      .packed = packed,
      .positions = of_tokens.positions.data(),
      .block_table = block_table_.data(),
      .pieces = reinterpret_cast<const AttentionPiece *>(array_bytes),
      .partial_sums = reinterpret_cast<float *>(partial_bytes),
      .partial_weights = reinterpret_cast<float *>(partial_bytes + planner.partial_weights_offset()),
      .query_stride = row_width(),
      .blocks_per_sequence = columns_,
      .layer = kLayer,
      .heads = shape_.heads(),
      .score_scale = score_scale(shape_)};
  const std::string unit =
      fmt::format("attention.cu BONSAI_KV={}_{}", dtype_name(shape_.dtype), padded_head_dim(shape_.head_dim));
  const auto call = [&](const char *kernel) { return emulation::Call{unit, kernel, circumstances.order}; };
  if (plan.narrow_pieces > 0) {
    NarrowAttendArguments narrow = {{}, arguments, 0};
    const uint32_t early_bytes = !heads ? 0
                                 : circumstances.copies_early
                                     ? cuda::early_bytes(shape_.dtype, padded_head_dim(shape_.head_dim))
                                     : planner.early_bytes(plan);
    if (heads) {
      narrow.has_early = early_bytes > 0;
      EXPECT_TRUE(plan.may_prepare);
      narrow.heads = *heads;
      narrow.heads.positions = arguments.positions;
      narrow.heads.sequences = of_tokens.sequences.data();
    }
    emulation::launch(call("attend_narrow"), {plan.narrow_pieces * shape_.kv_heads}, kNarrowThreads,
                      planner.narrow_shared_bytes() + early_bytes, &narrow);
  }
  if (plan.wide_pieces > 0) {
    arguments.pieces = reinterpret_cast<const AttentionPiece *>(array_bytes + plan.wide_offset());
    emulation::launch(call("attend_wide"), {plan.wide_pieces * shape_.kv_heads}, kWideThreads,
                      planner.wide_shared_bytes(), &arguments);
  }
  if (plan.splits > 0) {
    const CombineArguments combined = {
        .packed = packed,
        .splits = reinterpret_cast<const AttentionSplit *>(array_bytes + plan.splits_offset()),
        .partial_sums = arguments.partial_sums,
        .partial_weights = arguments.partial_weights,
        .y = y.data(),
        .heads = shape_.heads(),
        .head_dim = shape_.head_dim};
    emulation::launch(call("combine_sections"), {plan.splits, shape_.heads()}, kCombineThreads, 0, &combined);
  }
  return y;
}

std::vector<double> Sequences::expect(const Token &token) const {
  const uint32_t head_dim = shape_.head_dim;
  std::vector<float> queries(shape_.heads() * head_dim);
  query(token, queries.data());
  std::vector<double> y(queries.size());
  for (uint32_t kv_head = 0; kv_head < shape_.kv_heads; ++kv_head) {
    std::vector<std::vector<float>> keys, values;
    for (uint32_t position = 0; position <= token.position; ++position) {
      const uint32_t block = block_of({token.sequence, position}), slot = position % shape_.block_size;
      keys.push_back(decode_head(shape_.dtype, pool_.read({kLayer, block, kv_head, 0}, slot)));
      values.push_back(decode_head(shape_.dtype, pool_.read({kLayer, block, kv_head, 1}, slot)));
    }
    for (uint32_t head = kv_head * shape_.group; head < (kv_head + 1) * shape_.group; ++head) {
      std::vector<double> weights;
      for (const std::vector<float> &key : keys) {
        double score = 0;
        for (uint32_t d = 0; d < head_dim; ++d) score += double{queries[head * head_dim + d]} * key[d];
        weights.push_back(score / std::sqrt(head_dim));
      }
      const double largest = std::ranges::max(weights);
      for (double &weight : weights) weight = std::exp(weight - largest);
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (size_t i = 0; i < weights.size(); ++i) {
        for (uint32_t d = 0; d < head_dim; ++d) y[head * head_dim + d] += weights[i] / sum * values[i][d];
      }
    }
  }
  return y;
}

std::vector<Token> run(uint32_t sequence, uint32_t first, uint32_t last) {
  std::vector<Token> tokens;
  for (uint32_t position = first; position < last; ++position) tokens.push_back({sequence, position});
  return tokens;
}

double relative_error(const float *a, const std::vector<double> &b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace bonsai::cuda
