#include "tests/model/tiny_model.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numbers>
#include <stdexcept>
#include <utility>

namespace bonsai::test {
namespace {

// SplitMix64: tests need the same weights on every machine, which the standard distributions do not promise.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  double normal() {
    double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

void check(const Result<void> &result) {
  if (!result) throw std::runtime_error(result.error().message);
}

// Sets metadata keys, but for those that the test wants absent.
class Keys {
 public:
  Keys(gguf::Writer &writer, const TinyModel &model) : writer_(writer), model_(model) {}

  template <class Set, class Value>
  void put(Set set, const std::string &key, const Value &value) {
    if (!model_.without.contains(key)) (writer_.*set)(key, value);
  }

 private:
  gguf::Writer &writer_;
  const TinyModel &model_;
};

void put_shape(Keys &keys, const TinyModel &model) {
  using gguf::Writer;
  keys.put(&Writer::set_string, "general.architecture", "qwen3");
  keys.put(&Writer::set_string, "general.name", "tiny");
  keys.put(&Writer::set_uint32, "general.quantization_version", 2);
  keys.put(&Writer::set_uint32, "qwen3.block_count", model.layers);
  keys.put(&Writer::set_uint32, "qwen3.context_length", model.context);
  keys.put(&Writer::set_uint32, "qwen3.embedding_length", model.hidden);
  keys.put(&Writer::set_uint32, "qwen3.feed_forward_length", model.ffn);
  keys.put(&Writer::set_uint32, "qwen3.attention.head_count", model.heads);
  keys.put(&Writer::set_uint32, "qwen3.attention.head_count_kv", model.kv_heads);
  keys.put(&Writer::set_uint32, "qwen3.attention.key_length", model.head_dim);
  keys.put(&Writer::set_uint32, "qwen3.attention.value_length", model.head_dim);
  keys.put(&Writer::set_float32, "qwen3.attention.layer_norm_rms_epsilon", 1e-6f);
  keys.put(&Writer::set_float32, "qwen3.rope.freq_base", 10000.0f);
  if (model.yarn_factor == 0) return;
  keys.put(&Writer::set_string, "qwen3.rope.scaling.type", "yarn");
  keys.put(&Writer::set_float32, "qwen3.rope.scaling.factor", static_cast<float>(model.yarn_factor));
  keys.put(&Writer::set_uint32, "qwen3.rope.scaling.original_context_length", model.original_context);
}

std::string utf8(uint32_t character) {  // below U+0800
  if (character < 0x80) return std::string(1, static_cast<char>(character));
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

// GPT-2's byte alphabet: printable bytes stand for themselves, the others for U+0100 onwards.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  uint32_t unprintable = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    tokens.push_back(utf8(printable ? byte : unprintable++));
  }
  return tokens;
}

void put_tokenizer(Keys &keys, const TinyModel &model) {
  using gguf::Writer;
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"t", "h"}, {"th", "e"}, {"\u0120", "the"}, {"a", "n"},       {"an", "d"}, {"\u0120", "and"}, {"i", "n"},
      {"e", "r"}, {"o", "n"},  {"\u0120", "a"},   {"\u0120", "on"}, {"c", "e"},  {"\u0120on", "ce"}};
  std::vector<std::string> tokens = byte_tokens();
  std::vector<std::string> merge_lines;
  for (const auto &[left, right] : merges) {
    tokens.push_back(left + right);
    merge_lines.push_back(left + " " + right);
  }
  std::vector<int32_t> types(tokens.size(), 1);
  const auto end_of_text = static_cast<uint32_t>(tokens.size());
  for (const char *special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) tokens.push_back(special);
  types.resize(tokens.size(), 3);
  while (tokens.size() < model.vocab) tokens.push_back("[PAD" + std::to_string(tokens.size()) + "]");
  types.resize(tokens.size(), 5);

  keys.put(&Writer::set_string, "tokenizer.ggml.model", "gpt2");
  keys.put(&Writer::set_string, "tokenizer.ggml.pre", "qwen2");
  keys.put(&Writer::set_strings, "tokenizer.ggml.tokens", tokens);
  keys.put(&Writer::set_int32s, "tokenizer.ggml.token_type", types);
  keys.put(&Writer::set_strings, "tokenizer.ggml.merges", merge_lines);
  keys.put(&Writer::set_uint32, "tokenizer.ggml.bos_token_id", end_of_text);
  keys.put(&Writer::set_uint32, "tokenizer.ggml.eos_token_id", end_of_text);
  keys.put(&Writer::set_uint32, "tokenizer.ggml.padding_token_id", end_of_text);
  keys.put(&Writer::set_bool, "tokenizer.ggml.add_bos_token", false);
}

struct PlannedTensor {
  std::string name;
  std::vector<uint64_t> shape;  // columns first
  quant::Format format;
  double factor = 1;
};

std::vector<PlannedTensor> plan_tensors(const TinyModel &model) {
  std::vector<PlannedTensor> plan;
  auto matrix = [&](const std::string &prefix, const std::string &part, uint64_t rows, uint64_t columns) {
    auto found = model.formats.find(part);
    quant::Format format = found != model.formats.end() ? found->second : model.format;
    auto factor = model.factors.find(part);
    plan.push_back(
        {prefix + part + ".weight", {columns, rows}, format, factor != model.factors.end() ? factor->second : 1});
  };
  auto norm = [&](const std::string &name, uint64_t size) {
    plan.push_back({name + ".weight", {size}, quant::Format::kF32});
  };
  const uint64_t q_rows = uint64_t{model.heads} * model.head_dim;
  const uint64_t kv_rows = uint64_t{model.kv_heads} * model.head_dim;
  matrix("", "token_embd", model.vocab, model.hidden);
  for (uint32_t layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    norm(prefix + "attn_norm", model.hidden);
    matrix(prefix, "attn_q", q_rows, model.hidden);
    matrix(prefix, "attn_k", kv_rows, model.hidden);
    matrix(prefix, "attn_v", kv_rows, model.hidden);
    norm(prefix + "attn_q_norm", model.head_dim);
    norm(prefix + "attn_k_norm", model.head_dim);
    matrix(prefix, "attn_output", model.hidden, q_rows);
    norm(prefix + "ffn_norm", model.hidden);
    matrix(prefix, "ffn_gate", model.ffn, model.hidden);
    matrix(prefix, "ffn_up", model.ffn, model.hidden);
    matrix(prefix, "ffn_down", model.hidden, model.ffn);
  }
  norm("output_norm", model.hidden);
  if (!model.tied) matrix("", "output", model.vocab, model.hidden);

  std::map<std::string, std::vector<uint64_t>> additional = model.shapes;
  for (PlannedTensor &tensor : plan) {
    if (auto found = additional.extract(tensor.name)) tensor.shape = found.mapped();
    if (auto found = model.formats.find(tensor.name); found != model.formats.end()) tensor.format = found->second;
  }
  for (const auto &[name, shape] : additional) plan.push_back({name, shape, quant::Format::kF32});
  std::erase_if(plan, [&](const PlannedTensor &tensor) { return model.without.contains(tensor.name); });
  return plan;
}

// Random weights whose activations stay near 1: norms around 1, matrices of variance 1 / columns.
std::vector<std::byte> random_tensor(const PlannedTensor &tensor, Random &random) {
  size_t count = 1;
  for (uint64_t extent : tensor.shape) count *= extent;
  const bool is_norm = tensor.shape.size() == 1;
  const double spread = is_norm ? 0.1 : tensor.factor / std::sqrt(static_cast<double>(tensor.shape[0]));
  std::vector<float> values(count);
  for (float &value : values) value = static_cast<float>((is_norm ? 1 : 0) + spread * random.normal());
  const quant::FormatTraits &traits = quant::traits(tensor.format);
  std::vector<std::byte> bytes(quant::row_bytes(traits, count));
  traits.encode(values.data(), bytes.data(), count);
  return bytes;
}

}  // namespace

void write_tiny_model(const TinyModel &model, const std::string &path) {
  auto writer = gguf::Writer::create(path);
  if (!writer) throw std::runtime_error(writer.error().message);
  Keys keys(*writer, model);
  put_shape(keys, model);
  put_tokenizer(keys, model);
  if (model.metadata) model.metadata(*writer);

  const std::vector<PlannedTensor> plan = plan_tensors(model);
  for (const PlannedTensor &tensor : plan) check(writer->add_tensor(tensor.name, tensor.shape, tensor.format));
  check(writer->begin_data());
  Random random(model.seed);
  for (const PlannedTensor &tensor : plan) check(writer->write(random_tensor(tensor, random)));
  check(writer->finish());
}

TinyModelFile::TinyModelFile(const TinyModel &model) {
  std::string pattern = (std::filesystem::temp_directory_path() / "bonsai-tiny-XXXXXX").string();
  const int descriptor = mkstemp(pattern.data());
  if (descriptor < 0) throw std::runtime_error("cannot make a temporary file " + pattern);
  close(descriptor);
  path_ = pattern;
  write_tiny_model(model, path_);
}

TinyModelFile::~TinyModelFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace bonsai::test
