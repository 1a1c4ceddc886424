#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "core/base/utf8.h"
#include "tools/convert/checkpoint.h"
#include "tools/convert/json.h"

namespace bonsai::convert {
namespace {

// Reads typed members of config.json and words the errors. Keeps the first error; later reads give zero.
class ConfigReader {
 public:
  // `prefix` stands before keys in messages: "rope_scaling." for the object of that name.
  ConfigReader(const std::string &path, const Json &object, std::string prefix = "")
      : path_(path), object_(object), prefix_(std::move(prefix)) {}

  bool has(std::string_view key) const { return member(object_, key) != nullptr; }

  uint32_t whole(std::string_view key, uint64_t most) {
    const Json *value = member(object_, key);
    if (value && value->is_number_unsigned() && *value >= 1u && *value <= most) return value->get<uint32_t>();
    return set_error(key, fmt::format("a whole number from 1 to {}", most), value);
  }

  double positive(std::string_view key) {
    const Json *value = member(object_, key);
    if (value && value->is_number() && std::isfinite(value->get<double>()) && *value > 0) return value->get<double>();
    return set_error(key, "a positive number", value);
  }

  double positive_or(std::string_view key, double absent) { return has(key) ? positive(key) : absent; }

  // What transformers' Qwen3Config has where the file does not name the member.
  uint32_t whole_or_default(std::string_view key, uint64_t most, uint32_t value) {
    return take_default(key, value) ? value : whole(key, most);
  }
  double positive_or_default(std::string_view key, double value) {
    return take_default(key, value) ? value : positive(key);
  }

  bool boolean_or(std::string_view key, bool absent) {
    const Json *value = member(object_, key);
    if (!value) return absent;
    if (value->is_boolean()) return value->get<bool>();
    return set_error(key, "true or false", value) != 0;
  }

  // Lets `key` pass when it is absent or exactly `expected`.
  void only(std::string_view key, const Json &expected) {
    const Json *value = member(object_, key);
    if (value && *value != expected) set_error(key, describe(expected), value);
  }

  // For what must not be there at all.
  void refuse(std::string_view key, std::string_view reason) {
    if (has(key) && !error_) error_ = Error{fmt::format("{}: {}{}: {}", path_, prefix_, printable(key), reason)};
  }

  // For what changes nothing, but may be missed.
  void notice(std::string_view key, std::string_view text) {
    notices_.push_back(fmt::format("{}: {}{}: {}", path_, prefix_, key, text));
  }

  uint32_t set_error(std::string_view key, std::string_view expected, const Json *found) {
    if (error_) return 0;
    error_ = Error{fmt::format("{}: {}{}: expected {}, found {}", path_, prefix_, key, expected,
                               found ? describe(*found) : "nothing")};
    return 0;
  }

  const std::vector<std::string> &notices() const { return notices_; }

  Result<void> done() const {
    if (error_) return tl::unexpected(*error_);
    return {};
  }

 private:
  bool take_default(std::string_view key, double value) {
    if (has(key)) return false;
    notice(key, fmt::format("missing; taken to be {}, as by Hugging Face's transformers", value));
    return true;
  }

  const std::string &path_;
  const Json &object_;
  std::string prefix_;
  std::vector<std::string> notices_;
  std::optional<Error> error_;
};

// Whether the checkpoint is the model without a head.
bool is_headless(const Json &document) {
  const Json *architectures = member(document, "architectures");
  return architectures && *architectures == Json::array({"Qwen3Model"});
}

Result<void> check_architecture(const std::string &path, const Json &document) {
  ConfigReader reader(path, document);
  const Json *architectures = member(document, "architectures");
  if (!is_headless(document) && (!architectures || *architectures != Json::array({"Qwen3ForCausalLM"}))) {
    reader.set_error("architectures", "[\"Qwen3ForCausalLM\"] or [\"Qwen3Model\"]", architectures);
  }
  reader.only("model_type", "qwen3");
  reader.only("hidden_act", "silu");
  reader.only("attention_bias", false);
  reader.only("use_sliding_window", false);
  reader.only("partial_rotary_factor", 1.0);
  return reader.done();
}

// How Qwen's own FP8 checkpoints say that they are, and others of the same method.
Result<void> read_quantization(const std::string &path, const Json &document, CheckpointConfig &config) {
  const Json *quantization = member(document, "quantization_config");
  if (!quantization) return {};
  ConfigReader reader(path, *quantization, "quantization_config.");
  const Json *method = member(*quantization, "quant_method");
  if (!method || *method != "fp8") reader.set_error("quant_method", "\"fp8\", or unquantised weights", method);
  reader.only("fmt", "e4m3");
  config.fp8.emplace();
  if (const Json *block = member(*quantization, "weight_block_size")) {
    const auto is_extent = [](const Json &extent) { return extent.is_number_unsigned() && extent >= 1u; };
    if (!block->is_array() || block->size() != 2 || !std::ranges::all_of(*block, is_extent)) {
      reader.set_error("weight_block_size", "two whole numbers from 1 on", block);
    } else {
      config.fp8 = Fp8Blocks{(*block)[0].get<uint64_t>(), (*block)[1].get<uint64_t>()};
    }
  }
  return reader.done();
}

void append_notices(const ConfigReader &reader, CheckpointConfig &config) {
  config.notices.insert(config.notices.end(), reader.notices().begin(), reader.notices().end());
}

// null stands for as many as there are heads, and a missing member for 32.
uint32_t read_kv_heads(const Json &document, uint32_t heads, ConfigReader &reader) {
  constexpr std::string_view kKey = "num_key_value_heads";
  const bool is_null = document.contains(std::string(kKey)) && !reader.has(kKey);
  return is_null ? heads : reader.whole_or_default(kKey, model::kMostHeads, 32);
}

Result<void> read_shape(const std::string &path, const Json &document, CheckpointConfig &checkpoint) {
  ConfigReader reader(path, document);
  model::Config &config = checkpoint.model;
  config.layers = reader.whole("num_hidden_layers", model::kMostLayers);
  config.hidden = reader.whole("hidden_size", model::kMostHidden);
  config.ffn = reader.whole("intermediate_size", model::kMostFfn);
  config.heads = reader.whole("num_attention_heads", model::kMostHeads);
  config.kv_heads = read_kv_heads(document, config.heads, reader);
  config.head_dim = reader.whole_or_default("head_dim", model::kMostHeadDim, 128);
  config.vocab = reader.whole("vocab_size", model::kMostVocab);
  config.context = reader.whole("max_position_embeddings", model::kMostContext);
  config.rms_eps = static_cast<float>(reader.positive_or_default("rms_norm_eps", 1e-6));
  append_notices(reader, checkpoint);
  if (auto done = reader.done(); !done) return done;
  if (config.heads % config.kv_heads != 0) {
    return fail("{}: num_key_value_heads: expected a divisor of the {} heads, found {}", path, config.heads,
                config.kv_heads);
  }
  if (config.head_dim % 2 != 0) return fail("{}: head_dim: expected an even number, found {}", path, config.head_dim);
  return {};
}

// Members of a scaling beside those that read_scaling() reads: what changes nothing passes, and what Hugging Face's own
// code ignores is ignored with a notice.
void check_other_scaling(const Json &scaling, ConfigReader &reader) {
  constexpr std::array<std::string_view, 8> kRead = {
      "type",      "rope_type", "rope_theta", "factor", "original_max_position_embeddings", "attention_factor",
      "beta_fast", "beta_slow"};
  reader.only("partial_rotary_factor", 1.0);
  reader.only("truncate", true);
  reader.only("extrapolation_factor", 1.0);
  if (reader.has("attn_factor")) reader.notice("attn_factor", "ignored, as by Hugging Face's transformers");
  constexpr std::array<std::string_view, 4> kChecked = {"partial_rotary_factor", "truncate", "extrapolation_factor",
                                                        "attn_factor"};
  const auto is_among = [](std::span<const std::string_view> keys, std::string_view key) {
    return std::ranges::find(keys, key) != keys.end();
  };
  for (const auto &[key, value] : scaling.items()) {
    if (!is_among(kRead, key) && !is_among(kChecked, key))
      reader.refuse(key, "not a scaling that the runtime computes");
  }
}

// What YaRN stretches the context to. Whoever adds the scaling to a checkpoint leaves max_position_embeddings as it
// was, as Qwen3's instructions have it; where it is larger, it has been stretched already.
uint32_t stretched_context(const model::Config &config) {
  const double stretched = std::floor(config.rope_scaling.original_context * config.rope_scaling.factor);
  return static_cast<uint32_t>(std::clamp<double>(stretched, config.context, model::kMostContext));
}

// `prefix` stands before keys in messages.
Result<void> read_scaling(const std::string &path, const Json &scaling, const std::string &prefix,
                          CheckpointConfig &config) {
  ConfigReader reader(path, scaling, prefix);
  check_other_scaling(scaling, reader);
  const std::string_view type_key = reader.has("rope_type") ? "rope_type" : "type";
  const Json *type = member(scaling, type_key);
  model::RopeScaling &rope = config.model.rope_scaling;
  using Kind = model::RopeScaling::Kind;
  if (type && *type == "default") return reader.done();
  if (type && *type == "linear") rope.kind = Kind::kLinear;
  if (type && *type == "yarn") rope.kind = Kind::kYarn;
  if (rope.kind == Kind::kNone) reader.set_error(type_key, "\"default\", \"linear\" or \"yarn\"", type);

  rope.factor = reader.positive("factor");
  if (rope.factor < 1) reader.set_error("factor", "at least 1", member(scaling, "factor"));
  if (rope.kind == Kind::kYarn) {
    constexpr std::string_view kOriginal = "original_max_position_embeddings";
    rope.original_context = reader.has(kOriginal) ? reader.whole(kOriginal, model::kMostContext) : config.model.context;
    rope.attention_factor = reader.positive_or("attention_factor", 1 + 0.1 * std::log(rope.factor));
    rope.beta_fast = reader.positive_or("beta_fast", rope.beta_fast);
    rope.beta_slow = reader.positive_or("beta_slow", rope.beta_slow);
    const uint32_t stretched = stretched_context(config.model);
    if (stretched > config.model.context)
      reader.notice("factor", fmt::format("stretches the context from {} to {}", config.model.context, stretched));
    config.model.context = stretched;
  }
  append_notices(reader, config);
  return reader.done();
}

// Newer files hold rope_theta and the scaling in `rope_parameters`, older ones in two members of their own.
Result<void> read_rope(const std::string &path, const Json &document, CheckpointConfig &config) {
  const Json *parameters = member(document, "rope_parameters");
  const Json *older = member(document, "rope_scaling");
  if (parameters && older && *parameters != *older)
    return fail("{}: rope_scaling: expected nothing beside rope_parameters, or the same", path);
  const Json *scaling = parameters ? parameters : older;
  const std::string name = parameters ? "rope_parameters" : "rope_scaling";
  if (scaling && !scaling->is_object())
    return fail("{}: {}: expected an object, found {}", path, name, describe(*scaling));
  const bool theta_inside = parameters && member(*parameters, "rope_theta");
  ConfigReader reader(path, theta_inside ? *parameters : document, theta_inside ? "rope_parameters." : "");
  config.model.rope_base = reader.positive_or_default("rope_theta", 10000);
  append_notices(reader, config);
  if (auto done = reader.done(); !done) return done;
  return scaling ? read_scaling(path, *scaling, name + ".", config) : Result<void>{};
}

}  // namespace

Result<CheckpointConfig> read_checkpoint_config(const std::string &path) {
  auto document = read_object(path);
  if (!document) return tl::unexpected(document.error());
  CheckpointConfig config;
  if (auto done = check_architecture(path, *document); !done) return tl::unexpected(done.error());
  if (auto done = read_shape(path, *document, config); !done) return tl::unexpected(done.error());
  if (auto done = read_quantization(path, *document, config); !done) return tl::unexpected(done.error());
  if (auto done = read_rope(path, *document, config); !done) return tl::unexpected(done.error());
  ConfigReader reader(path, *document);
  config.tied = reader.boolean_or("tie_word_embeddings", false) || is_headless(*document);
  if (auto done = reader.done(); !done) return tl::unexpected(done.error());
  return config;
}

}  // namespace bonsai::convert
