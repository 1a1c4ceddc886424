// Sequences in a KV pool, and attention over them: by the kernels, on the emulator, and in float64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/cuda/attention.h"
#include "plugins/cuda/layout/activations.h"
#include "tests/plugins/cuda/emulator/emulator.h"
#include "tests/plugins/cuda/kv/pool.h"

namespace bonsai::cuda {

struct AttentionShape {
  uint32_t dtype = kKvF16;
  uint32_t head_dim = 64;
  uint32_t kv_heads = 1;
  uint32_t group = 1;  // query heads of a kv head
  uint32_t block_size = 32;

  uint32_t heads() const { return kv_heads * group; }
};
std::string name_of(const AttentionShape &shape);

struct Token {
  uint32_t sequence, position;
  bool operator==(const Token &) const = default;
};

// What a device is to be like. Few multiprocessors: a block walks along a whole context; many: contexts are split.
struct Circumstances {
  uint32_t multiprocessors = 132;
  uint32_t shared_bytes = 227 * 1024;
  emulation::Order order = {};
  bool copies_early = false;  // also where the planner would not
};

class Sequences {
 public:
  // Sequences of these lengths, with random keys and values in blocks that lie anywhere; whatever belongs to none of
  // them is NaN.
  Sequences(const AttentionShape &shape, std::vector<uint32_t> lengths);

  // (tokens, heads * head_dim). The query of a sequence's position is always the same.
  std::vector<float> attend(const std::vector<Token> &tokens, const Circumstances &circumstances = {}) const;
  std::vector<double> expect(const Token &token) const;

  // What attention leaves for the next product, where it packs heads itself, and what packing attend()'s results
  // leaves: the bytes of these forms.
  std::vector<std::byte> attend_packing(const std::vector<Token> &tokens, const ActivationForms &forms,
                                        const Circumstances &circumstances) const;
  std::vector<std::byte> attend_and_pack(const std::vector<Token> &tokens, const ActivationForms &forms,
                                         const Circumstances &circumstances) const;

  // The same of queries, keys and values that come out of a product: prepared, stored and attended to.
  enum class Launches { kOne, kTwo };
  std::vector<float> prepare_and_attend(const std::vector<Token> &tokens, Launches launches,
                                        const Circumstances &circumstances = {});
  const Pool &pool() const { return pool_; }

  // Replaces the keys and the values of all heads of a position.
  void store(const Token &token, const std::vector<float> &key, const std::vector<float> &value);

  // Queries have numbers of about this size.
  void set_query_size(float size) { query_size_ = size; }

  const AttentionShape &shape() const { return shape_; }
  float *query(const Token &token, float *to) const;

 private:
  uint32_t block_of(const Token &token) const;
  void fill(uint32_t sequence);
  uint32_t row_width() const { return (shape_.heads() + 2 * shape_.kv_heads) * shape_.head_dim; }
  std::vector<float> launch(const std::vector<Token> &tokens, const std::vector<float> &qkv,
                            const PrepareHeadsArguments *heads, const PackedActivations &packed,
                            const Circumstances &circumstances) const;
  std::vector<float> queries(const std::vector<Token> &tokens) const;

  AttentionShape shape_;
  float query_size_ = 1.5f;
  std::vector<uint32_t> lengths_;
  uint32_t columns_;  // of the block table
  Pool pool_;
  std::vector<uint32_t> block_table_;
};

// Tokens first, first + 1, ... last - 1 of a sequence.
std::vector<Token> run(uint32_t sequence, uint32_t first, uint32_t last);

// |a - b| / |b| over elements.
double relative_error(const float *a, const std::vector<double> &b);

}  // namespace bonsai::cuda
