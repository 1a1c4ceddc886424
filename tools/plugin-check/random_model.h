// Small random Qwen3 models in memory, for a backend and for the judge alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/model/weights.h"
#include "core/quant/format.h"

namespace bonsai::check {

// The defaults fit every format: rows are whole blocks of 256.
struct ModelShape {
  uint32_t layers = 1;
  uint32_t hidden = 256;
  uint32_t ffn = 256;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t head_dim = 64;
  uint32_t vocab = 97;
  double yarn_factor = 0;  // 0: plain RoPE
  uint32_t original_context = 32;
  float rms_eps = 1e-6f;
  bool tied = false;
  uint64_t seed = 1;

  quant::Format format = quant::Format::kF32;         // of every matrix but those named here
  std::map<std::string, quant::Format> formats = {};  // by GGUF's part: "attn_q", "token_embd"
  std::function<void(const std::string &part, std::span<float> weights)> edit = {};  // changes weights before encoding
};

// A shape for what does not depend on formats with large blocks: narrow, so that the judge is fast, and two layers
// deep.
ModelShape narrow_shape(quant::Format format);

class RandomModel {
 public:
  explicit RandomModel(const ModelShape &shape);
  RandomModel(const RandomModel &) = delete;
  RandomModel &operator=(const RandomModel &) = delete;

  const model::Model &model() const { return model_; }
  const model::Config &config() const { return model_.config; }

 private:
  const gguf::Tensor *matrix(const ModelShape &shape, const std::string &part, uint64_t rows, uint64_t columns);
  std::vector<float> norm(size_t size);

  model::Model model_;
  uint64_t next_seed_;
  std::deque<gguf::Tensor> tensors_;
  std::deque<std::vector<std::byte>> bytes_;
};

// One decoded row of a matrix.
std::vector<float> decoded_row(const gguf::Tensor &matrix, uint64_t row);

}  // namespace bonsai::check
