// The tensors of a Qwen3 model, found by name and checked against its configuration.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/gguf/file.h"
#include "core/model/config.h"

namespace bonsai::model {

// Views into the mapped file. Matrices are (rows, columns) row-major in their own format; vectors were decoded to
// float32.
struct LayerWeights {
  const gguf::Tensor *attn_q = nullptr;       // (heads * head_dim, hidden)
  const gguf::Tensor *attn_k = nullptr;       // (kv_heads * head_dim, hidden)
  const gguf::Tensor *attn_v = nullptr;       // (kv_heads * head_dim, hidden)
  const gguf::Tensor *attn_output = nullptr;  // (hidden, heads * head_dim)
  const gguf::Tensor *ffn_gate = nullptr;     // (ffn, hidden)
  const gguf::Tensor *ffn_up = nullptr;       // (ffn, hidden)
  const gguf::Tensor *ffn_down = nullptr;     // (hidden, ffn)
  std::vector<float> attn_norm;               // (hidden)
  std::vector<float> ffn_norm;                // (hidden)
  std::vector<float> q_norm;                  // (head_dim)
  std::vector<float> k_norm;                  // (head_dim)
};

// A model file, ready to upload. Owns the mapping that the tensor views point into.
struct Model {
  std::unique_ptr<gguf::File> file;
  Config config;
  std::vector<LayerWeights> layers;
  const gguf::Tensor *token_embd = nullptr;  // (vocab, hidden)
  const gguf::Tensor *head = nullptr;        // (vocab, hidden): `output.weight`, or token_embd when the head is tied
  bool tied = false;
  std::vector<float> output_norm;     // (hidden)
  std::vector<std::string> warnings;  // the file's and the configuration's, one line each
};

// Opens, checks and binds a file. Errors are one line beginning with the path (a missing tensor, a wrong shape: which,
// and what was expected).
Result<Model> load_model(const std::string &path);
Result<Model> bind_model(std::unique_ptr<gguf::File> file);

}  // namespace bonsai::model
