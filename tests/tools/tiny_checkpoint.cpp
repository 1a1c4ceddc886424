#include "tests/tools/tiny_checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "core/quant/format.h"

namespace bonsai::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kHidden = 128, kFfn = 256, kHeads = 2, kHeadDim = 64, kVocab = 264;

std::string utf8(uint32_t character) {  // below U+0800
  if (character < 0x80) return std::string(1, static_cast<char>(character));
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

json make_tokenizer() {
  json vocab;
  uint32_t unprintable = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    vocab[utf8(printable ? byte : unprintable++)] = byte;
  }
  vocab["th"] = 256;
  vocab["the"] = 257;
  json added = json::array();
  for (const char *special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    added.push_back({{"id", 258 + added.size()},
                     {"content", special},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const char *pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", json::array({split, byte_level})}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array({"t h", "th e"})}}}};
}

const quant::FormatTraits &format_of(std::string_view dtype) {
  const quant::FormatTraits *format = quant::find_format(dtype);
  if (!format) throw std::runtime_error("no such dtype");
  return *format;
}

// Weights between -0.5 and 0.5 that any of the three dtypes holds exactly.
CheckpointTensor random_tensor(std::string name, std::string_view dtype, std::vector<uint64_t> shape) {
  size_t count = 1;
  for (uint64_t extent : shape) count *= extent;
  uint32_t state = static_cast<uint32_t>(std::hash<std::string>{}(name));
  std::vector<float> values(count);
  for (float &value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(static_cast<int>(state >> 25) - 64) / 128;
  }
  const quant::FormatTraits &format = format_of(dtype);
  std::string bytes(quant::row_bytes(format, count), '\0');
  format.encode(values.data(), reinterpret_cast<std::byte *>(bytes.data()), count);
  return {std::move(name), std::string(dtype), std::move(shape), std::move(bytes)};
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (fs::temp_directory_path() / "bonsai test-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot make a directory " + pattern);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_file(const std::string &path, std::string_view content) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!stream.flush()) throw std::runtime_error("cannot write " + path);
}

std::string read_file(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path);
  std::ostringstream content;
  content << stream.rdbuf();
  return content.str();
}

TinyCheckpoint::TinyCheckpoint(std::string_view dtype, bool tied) : tokenizer(make_tokenizer()) {
  config = {{"architectures", {"Qwen3ForCausalLM"}},
            {"model_type", "qwen3"},
            {"hidden_act", "silu"},
            {"vocab_size", kVocab},
            {"hidden_size", kHidden},
            {"intermediate_size", kFfn},
            {"num_hidden_layers", 1},
            {"num_attention_heads", kHeads},
            {"num_key_value_heads", 1},
            {"head_dim", kHeadDim},
            {"rms_norm_eps", 1e-6},
            {"rope_theta", 1000000.0},
            {"max_position_embeddings", 512},
            {"tie_word_embeddings", tied},
            {"attention_bias", false}};
  tokenizer_config = {{"tokenizer_class", "Qwen2Tokenizer"},
                      {"eos_token", "<|endoftext|>"},
                      {"pad_token", "<|endoftext|>"},
                      {"bos_token", "<|endoftext|>"},
                      {"chat_template", "from tokenizer_config"}};
  auto add = [&](std::string name, std::vector<uint64_t> shape) {
    tensors.push_back(random_tensor(std::move(name), dtype, std::move(shape)));
  };
  const std::string layer = "model.layers.0.";
  add("model.embed_tokens.weight", {kVocab, kHidden});
  add(layer + "input_layernorm.weight", {kHidden});
  add(layer + "self_attn.q_proj.weight", {kHeads * kHeadDim, kHidden});
  add(layer + "self_attn.k_proj.weight", {kHeadDim, kHidden});
  add(layer + "self_attn.v_proj.weight", {kHeadDim, kHidden});
  add(layer + "self_attn.o_proj.weight", {kHidden, kHeads * kHeadDim});
  add(layer + "self_attn.q_norm.weight", {kHeadDim});
  add(layer + "self_attn.k_norm.weight", {kHeadDim});
  add(layer + "post_attention_layernorm.weight", {kHidden});
  add(layer + "mlp.gate_proj.weight", {kFfn, kHidden});
  add(layer + "mlp.up_proj.weight", {kFfn, kHidden});
  add(layer + "mlp.down_proj.weight", {kHidden, kFfn});
  add("model.norm.weight", {kHidden});
  if (!tied) add("lm_head.weight", {kVocab, kHidden});
}

CheckpointTensor &TinyCheckpoint::tensor(std::string_view name) {
  auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto &tensor) { return tensor.name == name; });
  if (found == tensors.end()) throw std::runtime_error("no such tensor");
  return *found;
}

void TinyCheckpoint::write_texts(const fs::path &directory) const {
  fs::create_directories(directory);
  write_file(directory / "config.json", config.dump());
  write_file(directory / "tokenizer.json", tokenizer.dump());
  write_file(directory / "tokenizer_config.json", tokenizer_config.dump());
}

void TinyCheckpoint::write(const fs::path &directory) const {
  write_texts(directory);
  write_file(directory / "model.safetensors", safetensors(tensors));
}

std::string safetensors(const std::vector<CheckpointTensor> &tensors) {
  json header;
  std::string data;
  for (const CheckpointTensor &tensor : tensors) {
    const size_t begin = data.size();
    data += tensor.bytes;
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  header["__metadata__"] = {{"format", "pt"}};
  return safetensors(header.dump(), data);
}

std::string safetensors(std::string_view header, std::string_view data) {
  std::string file;
  for (int shift = 0; shift < 64; shift += 8) file.push_back(static_cast<char>(header.size() >> shift & 0xFF));
  return file.append(header).append(data);
}

}  // namespace bonsai::test
