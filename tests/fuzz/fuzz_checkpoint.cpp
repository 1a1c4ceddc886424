// Promise: a safetensors file or a config.json is refused with one line that begins with its path, or is one of which
// every part can be used.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_target.h"
#include "tools/convert/checkpoint.h"
#include "tools/convert/safetensors.h"

namespace {

using namespace bonsai::convert;

enum class Kind : uint8_t { kTensors, kConfig, kCount };

// A file in memory, since the readers take paths.
const std::string &path_of_file_with(std::string_view text) {
  static const int file = memfd_create("input", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  require(file >= 0 && ftruncate(file, 0) == 0);
  require(pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  return path;
}

template <class T>
bool refused_by_path(const bonsai::Result<T> &result, const std::string &path) {
  if (!refused_in_one_line(result)) return false;
  require(result.error().message.starts_with(path + ": "));
  return true;
}

void use_tensors(const std::string &path) {
  const auto file = SafetensorsFile::open(path);
  if (refused_by_path(file, path)) return;
  uint64_t sum = 0;  // so that every byte is read
  const std::byte *end = nullptr;
  for (const SourceTensor &tensor : file->tensors()) {
    uint64_t bytes = tensor.format ? bonsai::quant::traits(*tensor.format).block_bytes : 0;
    for (const uint64_t extent : tensor.shape) bytes *= extent;
    require(!tensor.format || bytes == tensor.bytes.size());
    require(end == nullptr || tensor.bytes.data() == end);
    end = tensor.bytes.data() + tensor.bytes.size();
    for (const std::byte byte : tensor.bytes) sum += std::to_integer<uint64_t>(byte);
    file->mapping().release(tensor.bytes);
  }
  require(sum <= UINT64_MAX / 2);
}

void use_config(const std::string &path) {
  const auto config = read_checkpoint_config(path);
  if (refused_by_path(config, path)) return;
  const bonsai::model::Config &model = config->model;
  for (const uint32_t extent : {model.layers, model.hidden, model.ffn, model.heads, model.kv_heads, model.head_dim,
                                model.vocab, model.context}) {
    require(extent > 0);
  }
  require(model.heads % model.kv_heads == 0 && model.rope_base > 0);
}

std::string safetensors(std::string_view header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char *>(&length), sizeof length);
  bytes += header;
  return bytes + std::string(data_bytes, '\x3c');
}

constexpr std::string_view kConfig = R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
  "hidden_act": "silu", "attention_bias": false, "hidden_size": 128, "intermediate_size": 256,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 300,
  "max_position_embeddings": 65536, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true,
  "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16384}})";

constexpr std::string_view kNewerConfig = R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 128,
  "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "head_dim": 32, "vocab_size": 300, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
  "rope_parameters": {"rope_theta": 10000, "rope_type": "default"}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const std::string &path = path_of_file_with({reinterpret_cast<const char *>(data) + 1, size - 1});
  switch (static_cast<Kind>(data[0] % static_cast<uint8_t>(Kind::kCount))) {
    case Kind::kTensors:
      use_tensors(path);
      break;
    default:
      use_config(path);
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  return {
      make_seed(Kind::kTensors, safetensors(R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 3],
                    "data_offsets": [0, 24]}, "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]}})",
                                            26)),
      make_seed(Kind::kTensors, safetensors(R"({"b": {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]},
                    "a": {"dtype": "F16", "shape": [0, 7], "data_offsets": [8, 8]}})",
                                            8)),
      make_seed(Kind::kTensors, safetensors("{}", 0)),
      make_seed(Kind::kTensors, safetensors(R"({"a": {"dtype": "I8", "shape": [4294967296, 4294967296],
                    "data_offsets": [18446744073709551615, 1]}})",
                                            4)),
      make_seed(Kind::kConfig, kConfig),
      make_seed(Kind::kConfig, kNewerConfig),
      make_seed(Kind::kConfig,
                std::string(kNewerConfig.substr(0, kNewerConfig.size() - 2)) + R"(, "a\nb": "of two lines"}})"),
  };
}
