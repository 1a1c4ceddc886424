// Writes small random Qwen3 models for tests: any dimensions, any format per tensor, valid or broken on purpose.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/gguf/writer.h"
#include "core/quant/format.h"

namespace bonsai::test {

// The defaults fit every format with blocks of 128 or less. The tokenizer has kTinyTokens tokens: a byte each, a few
// merges ("the" and the like), <|endoftext|>, <|im_start|>, <|im_end|>; a larger vocabulary is filled up with unused
// ones.
inline constexpr uint32_t kTinyTokens = 272;

struct TinyModel {
  uint32_t layers = 2;
  uint32_t hidden = 128;
  uint32_t ffn = 256;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t head_dim = 32;
  uint32_t vocab = kTinyTokens;
  uint32_t context = 256;
  bool tied = true;
  double yarn_factor = 0;  // 0: plain RoPE
  uint32_t original_context = 64;
  uint64_t seed = 1;  // the same options and seed give the same bytes

  quant::Format format = quant::Format::kQ1_0_G128;  // of every matrix but those named here
  // Exceptions, by the part in every layer ("attn_q", "token_embd") or by a tensor's full name, norms included.
  std::map<std::string, quant::Format> formats = {};

  std::map<std::string, double> factors = {};  // of a part's random weights, in every layer

  // For files that must be refused.
  std::set<std::string> without = {};  // metadata keys and tensors to leave out, by full name
  // Another shape for a tensor, or an additional tensor in F32.
  std::map<std::string, std::vector<uint64_t>> shapes = {};
  std::function<void(gguf::Writer &)> metadata = {};  // called last: its values replace the usual ones
};

// Writes the model to `path`. Throws std::runtime_error when that fails, which fails the test.
void write_tiny_model(const TinyModel &model, const std::string &path);

// A tiny model in a file that lives as long as this object.
class TinyModelFile {
 public:
  explicit TinyModelFile(const TinyModel &model);
  TinyModelFile(const TinyModelFile &) = delete;
  TinyModelFile &operator=(const TinyModelFile &) = delete;
  ~TinyModelFile();
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace bonsai::test
