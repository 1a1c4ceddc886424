// A Hugging Face checkpoint directory: config.json, and tensors in one safetensors file or in shards with an index.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/model/config.h"
#include "tools/convert/safetensors.h"

namespace bonsai::convert {

// Of FP8 checkpoints: the weights that share a scale. Where the file names no blocks, a tensor or a row has one.
struct Fp8Blocks {
  std::optional<uint64_t> rows, columns;
};

struct CheckpointConfig {
  model::Config model;               // vocab is the embedding's rows as config.json states them
  bool tied = false;                 // tie_word_embeddings, or a Qwen3Model: there is no lm_head
  std::optional<Fp8Blocks> fp8;      // quantization_config; nullopt: there is none
  std::vector<std::string> notices;  // what the file says and the result does not; one line each
};

// Reads the config.json of a Qwen3ForCausalLM or a Qwen3Model. What the runtime would compute differently (biases,
// sliding windows, other activations, other rope scalings) is refused, and so is quantised storage other than FP8.
Result<CheckpointConfig> read_checkpoint_config(const std::string &path);

// The tensors of a checkpoint, whichever files they are in.
class CheckpointTensors {
 public:
  // Reads DIR/model.safetensors or, failing that, what DIR/model.safetensors.index.json lists, or without it all of
  // model-00001-of-NNNNN.safetensors and so on.
  static Result<CheckpointTensors> open(const std::string &directory);

  const SourceTensor *find(const std::string &name) const;  // nullptr when absent
  std::vector<std::string_view> names() const;              // sorted
  std::vector<std::string> paths() const;                   // of the files that were read
  // Tells the kernel that a part of a tensor's bytes is not needed again.
  void release(const SourceTensor &tensor, std::span<const std::byte> bytes) const;

 private:
  struct Entry {
    size_t file;
    size_t index;
  };
  Result<void> add_file(const std::string &path);
  Result<void> check_place(const std::string &tensor, const std::string &file) const;
  std::string index_path_;  // empty: there is none
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Entry> entries_;
};

}  // namespace bonsai::convert
