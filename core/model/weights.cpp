#include "core/model/weights.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "core/base/utf8.h"

namespace bonsai::model {
namespace {

// "256 x 128": rows by columns, the order of the mathematics; GGUF stores the columns first.
std::string shape_text(std::vector<uint64_t> shape) {
  std::reverse(shape.begin(), shape.end());
  return fmt::format("{}", fmt::join(shape, " x "));
}

std::vector<uint64_t> without_trailing_ones(std::vector<uint64_t> shape) {
  while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
  return shape;
}

std::vector<float> decode_all(const gguf::Tensor &tensor) {
  std::vector<float> values(tensor.rows() * tensor.columns());
  quant::traits(tensor.format).decode(tensor.data.data(), values.data(), values.size());
  return values;
}

// Finds tensors, keeps the first error and remembers which names were asked for.
class Binder {
 public:
  explicit Binder(const gguf::File &file) : file_(file) {}

  const gguf::Tensor *matrix(const std::string &name, uint64_t rows, uint64_t columns) {
    return find(name, {columns, rows});
  }

  std::vector<float> vector(const std::string &name, uint64_t size) {
    const gguf::Tensor *tensor = find(name, {size});
    if (!tensor) return {};
    const bool is_float = tensor->format == quant::Format::kF32 || tensor->format == quant::Format::kF16 ||
                          tensor->format == quant::Format::kBF16;
    if (!is_float) {
      set_error(name, "expected F32, F16 or BF16, found {}", quant::traits(tensor->format).name);
      return {};
    }
    return decode_all(*tensor);
  }

  const std::optional<Error> &error() const { return error_; }
  bool was_asked_for(std::string_view name) const { return asked_.contains(std::string(name)); }

 private:
  const gguf::Tensor *find(const std::string &name, const std::vector<uint64_t> &shape) {
    asked_.insert(name);
    const gguf::Tensor *tensor = file_.find_tensor(name);
    if (!tensor) {
      set_error(name, "missing, expected {}", shape_text(shape));
      return nullptr;
    }
    if (without_trailing_ones(tensor->shape) != without_trailing_ones(shape)) {
      set_error(name, "expected {}, found {}", shape_text(shape), shape_text(tensor->shape));
      return nullptr;
    }
    return tensor;
  }

  template <class... Args>
  void set_error(const std::string &name, fmt::format_string<Args...> format, Args &&...args) {
    if (error_) return;
    error_ = Error{fmt::format("{}: {}: {}", file_.path(), name, fmt::format(format, std::forward<Args>(args)...))};
  }

  const gguf::File &file_;
  std::optional<Error> error_;
  std::unordered_set<std::string> asked_;
};

LayerWeights bind_layer(Binder &binder, const Config &config, uint32_t layer) {
  auto name = [&](std::string_view part) { return fmt::format("blk.{}.{}.weight", layer, part); };
  const uint64_t q_rows = uint64_t{config.heads} * config.head_dim;
  const uint64_t kv_rows = uint64_t{config.kv_heads} * config.head_dim;
  LayerWeights weights;
  weights.attn_norm = binder.vector(name("attn_norm"), config.hidden);
  weights.attn_q = binder.matrix(name("attn_q"), q_rows, config.hidden);
  weights.attn_k = binder.matrix(name("attn_k"), kv_rows, config.hidden);
  weights.attn_v = binder.matrix(name("attn_v"), kv_rows, config.hidden);
  weights.q_norm = binder.vector(name("attn_q_norm"), config.head_dim);
  weights.k_norm = binder.vector(name("attn_k_norm"), config.head_dim);
  weights.attn_output = binder.matrix(name("attn_output"), config.hidden, q_rows);
  weights.ffn_norm = binder.vector(name("ffn_norm"), config.hidden);
  weights.ffn_gate = binder.matrix(name("ffn_gate"), config.ffn, config.hidden);
  weights.ffn_up = binder.matrix(name("ffn_up"), config.ffn, config.hidden);
  weights.ffn_down = binder.matrix(name("ffn_down"), config.hidden, config.ffn);
  return weights;
}

// The layer number in "blk.12.attn_q.weight".
std::optional<uint64_t> layer_of(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  uint64_t layer = 0;
  auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  if (error != std::errc{} || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return layer;
}

// Tensors that nobody asked for: those that would change the arithmetic are refused, others are worth a warning.
Result<void> check_other_tensors(const gguf::File &file, const Binder &binder, const Config &config,
                                 std::vector<std::string> &warnings) {
  std::vector<std::string> ignored;
  for (const gguf::Tensor &tensor : file.tensors()) {
    if (binder.was_asked_for(tensor.name)) continue;
    if (auto layer = layer_of(tensor.name); layer && *layer >= config.layers) {
      return fail("{}: {}: qwen3.block_count says {} layers", file.path(), printable(tensor.name), config.layers);
    }
    if (tensor.name.ends_with(".bias") || tensor.name.ends_with(".scale") || tensor.name.starts_with("rope_")) {
      return fail("{}: {}: not part of Qwen3, and leaving it out would change the result", file.path(),
                  printable(tensor.name));
    }
    ignored.push_back(printable(tensor.name));
  }
  if (ignored.empty()) return {};
  constexpr size_t kMostNamed = 3;
  auto named_end = ignored.begin() + std::min(ignored.size(), kMostNamed);
  warnings.push_back(fmt::format(
      "{}: not part of Qwen3 and ignored: {}{}", file.path(), fmt::join(ignored.begin(), named_end, ", "),
      ignored.size() > kMostNamed ? fmt::format(" and {} more", ignored.size() - kMostNamed) : std::string()));
  return {};
}

}  // namespace

Result<Model> bind_model(std::unique_ptr<gguf::File> file) {
  Model model;
  model.warnings = file->warnings();
  auto config = read_config(*file, model.warnings);
  if (!config) return tl::unexpected(config.error());
  model.config = *config;

  Binder binder(*file);
  model.token_embd = binder.matrix("token_embd.weight", config->vocab, config->hidden);
  for (uint32_t layer = 0; layer < config->layers && !binder.error(); ++layer) {
    model.layers.push_back(bind_layer(binder, *config, layer));
  }
  model.output_norm = binder.vector("output_norm.weight", config->hidden);
  model.tied = file->find_tensor("output.weight") == nullptr;
  model.head = model.tied ? model.token_embd : binder.matrix("output.weight", config->vocab, config->hidden);
  if (binder.error()) return tl::unexpected(*binder.error());

  auto checked = check_other_tensors(*file, binder, *config, model.warnings);
  if (!checked) return tl::unexpected(checked.error());
  model.file = std::move(file);
  return model;
}

Result<Model> load_model(const std::string &path) {
  auto file = gguf::File::open(path);
  if (!file) return tl::unexpected(file.error());
  return bind_model(std::make_unique<gguf::File>(std::move(*file)));
}

}  // namespace bonsai::model
