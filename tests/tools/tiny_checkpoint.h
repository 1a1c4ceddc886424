// Writes tiny Hugging Face checkpoints by hand, valid or broken on purpose.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::test {

// An empty directory that is removed with all it holds. Its name has a blank, as a user's may.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;
  ~TemporaryDirectory();
  const std::filesystem::path &path() const { return path_; }
  std::string file(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void write_file(const std::string &path, std::string_view content);
std::string read_file(const std::string &path);

struct CheckpointTensor {
  std::string name;
  std::string dtype;  // "F32", "F16", "BF16" and, by hand, others
  std::vector<uint64_t> shape;
  std::string bytes;
};

// A Qwen3 of one layer with random weights: hidden 128, ffn 256, two heads of 64 that share one of keys and values,
// and 264 tokens. Change what a test needs, then write().
struct TinyCheckpoint {
  explicit TinyCheckpoint(std::string_view dtype = "F16", bool tied = true);

  nlohmann::json config;
  nlohmann::json tokenizer;  // a token for each byte, two merges, three special tokens
  nlohmann::json tokenizer_config;
  std::vector<CheckpointTensor> tensors;

  CheckpointTensor &tensor(std::string_view name);

  // All files but the tensors' (which a test may want in shards).
  void write_texts(const std::filesystem::path &directory) const;
  void write(const std::filesystem::path &directory) const;  // the same and model.safetensors
};

// A safetensors file's bytes: the length of the header, the header, the data.
std::string safetensors(const std::vector<CheckpointTensor> &tensors);
std::string safetensors(std::string_view header, std::string_view data);

}  // namespace bonsai::test
