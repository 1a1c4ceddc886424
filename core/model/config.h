// A Qwen3 model's shape, read from GGUF metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/gguf/file.h"

namespace bonsai::model {

// What a model may have: far beyond any Qwen3, and small enough that every product of two of them fits in 64 bits. The
// tools that make models keep to it too.
inline constexpr uint32_t kMostLayers = 1024;
inline constexpr uint32_t kMostHidden = 1 << 17;
inline constexpr uint32_t kMostFfn = 1 << 20;
inline constexpr uint32_t kMostHeads = 4096;
inline constexpr uint32_t kMostHeadDim = 1024;
inline constexpr uint32_t kMostContext = 1 << 24;
inline constexpr uint32_t kMostVocab = 1 << 24;

// YaRN, arXiv:2309.00071. factor 1 with kind kNone means plain RoPE.
struct RopeScaling {
  enum class Kind { kNone, kLinear, kYarn } kind = Kind::kNone;
  double factor = 1;
  uint32_t original_context = 0;
  double attention_factor = 1;  // cos and sin are scaled by it
  double beta_fast = 32;
  double beta_slow = 1;
};

struct Config {
  std::string name;  // general.name, or empty
  uint32_t layers = 0;
  uint32_t hidden = 0;  // embedding_length
  uint32_t ffn = 0;     // feed_forward_length
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;  // attention.key_length == attention.value_length
  uint32_t vocab = 0;     // rows of token_embd
  uint32_t context = 0;   // context_length
  float rms_eps = 1e-6f;
  double rope_base = 10000;
  RopeScaling rope_scaling;
  bool pools_last = false;  // an embedding is the last token's hidden state (pooling_type 3), else the mean of all
};

// Reads and checks the metadata under "qwen3.". Refused with one line: a file that is no model (general.type), another
// architecture, prism.hadamard.* keys, an unknown rope.scaling.type, a missing or absurd number (names key, value and
// what was expected). When `token_embd` has another row count than the metadata says, the tensor is right and
// `warnings` gets a line; so with a key that is ignored.
Result<Config> read_config(const gguf::File &file, std::vector<std::string> &warnings);

// cos and sin for positions [0, positions), computed to nearly all bits of float64 and rounded to float32,
// (positions, head_dim / 2) row-major. The same bytes on every machine, and in whatever floating-point environment the
// caller has. rope_base is at least 1 and no position above 2^24, so that no angle is.
struct RopeTable {
  uint32_t positions = 0;
  uint32_t pairs = 0;
  std::vector<float> cos;
  std::vector<float> sin;
};
RopeTable make_rope_table(const Config &config, uint32_t positions);

// The angle of pair i at position 1, rounded to float64, YaRN included; the table's have more bits. The same bytes
// everywhere, likewise.
std::vector<double> rope_frequencies(const Config &config);

}  // namespace bonsai::model
