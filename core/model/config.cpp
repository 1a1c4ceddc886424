#include "core/model/config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/base/elementary.h"
#include "core/base/floating_point_environment.h"
#include "core/base/utf8.h"

namespace bonsai::model {
namespace {

// Reads typed values under "qwen3." and words the errors.
class Metadata {
 public:
  explicit Metadata(const gguf::File &file) : file_(file) {}

  const gguf::Value *find(std::string_view key) const { return file_.find(full(key)); }

  Result<uint32_t> whole(std::string_view key, uint64_t least, uint64_t most) const {
    const gguf::Value *value = find(key);
    if (!value) {
      return fail("{}: {}: missing, expected a whole number from {} to {}", file_.path(), full(key), least, most);
    }
    auto number = value->as_uint();
    if (!number || *number < least || *number > most) {
      return fail("{}: {}: expected a whole number from {} to {}, found {}", file_.path(), full(key), least, most,
                  describe(*value));
    }
    return static_cast<uint32_t>(*number);
  }

  Result<uint32_t> whole_or(std::string_view key, uint64_t least, uint64_t most, uint32_t absent) const {
    if (!find(key)) return absent;
    return whole(key, least, most);
  }

  // A number that holds for every layer: given once, or once for each of them.
  Result<uint32_t> whole_of_layers(std::string_view key, uint64_t least, uint64_t most, uint32_t layers) const {
    const gguf::Value *value = find(key);
    const gguf::Array *array = value ? value->as_array() : nullptr;
    if (!array) return whole(key, least, most);
    const auto numbers = array->count == layers ? array->integers() : std::nullopt;
    if (!numbers || std::ranges::any_of(*numbers, [&](int64_t number) { return number != numbers->front(); })) {
      return fail("{}: {}: expected a whole number, or the same for each of {} layers, found {}", file_.path(),
                  full(key), layers, describe(*value));
    }
    const int64_t number = numbers->front();
    if (number < 0 || static_cast<uint64_t>(number) < least || static_cast<uint64_t>(number) > most) {
      return fail("{}: {}: expected whole numbers from {} to {}, found {}", file_.path(), full(key), least, most,
                  number);
    }
    return static_cast<uint32_t>(number);
  }

  Result<double> positive(std::string_view key) const {
    const gguf::Value *value = find(key);
    if (!value) return fail("{}: {}: missing, expected a positive number", file_.path(), full(key));
    auto number = value->as_number();
    if (!number || !std::isfinite(*number) || *number <= 0) {
      return fail("{}: {}: expected a positive number, found {}", file_.path(), full(key), describe(*value));
    }
    return *number;
  }

  Result<double> positive_or(std::string_view key, double absent) const {
    if (!find(key)) return absent;
    return positive(key);
  }

  // For a key whose effect is not computed here: only the value that means "no effect" is let through.
  template <class Accept>
  Result<void> only(std::string_view key, std::string_view expected, Accept accept) const {
    const gguf::Value *value = find(key);
    if (!value || accept(*value)) return {};
    return fail("{}: {}: expected {}, found {}", file_.path(), full(key), expected, describe(*value));
  }

 private:
  static std::string full(std::string_view key) { return fmt::format("qwen3.{}", key); }
  const gguf::File &file_;
};

Result<void> check_architecture(const gguf::File &file) {
  for (const auto &[key, value] : file.metadata()) {
    if (key.starts_with("prism.hadamard.")) {
      return fail("{}: {}: the weights are stored in a rotated (Hadamard) basis, which this runtime does not undo",
                  file.path(), key);
    }
  }
  const gguf::Value *type = file.find("general.type");  // adapters, projectors and matrices of importance have others
  if (type && type->as_string() != "model")
    return fail("{}: general.type: expected \"model\", found {}", file.path(), describe(*type));
  const gguf::Value *value = file.find("general.architecture");
  if (!value) return fail("{}: general.architecture: missing, expected \"qwen3\"", file.path());
  if (value->as_string() != "qwen3") {
    return fail("{}: general.architecture: expected \"qwen3\", found {}", file.path(), describe(*value));
  }
  return {};
}

template <class T, class Field>
Result<void> store(Result<T> value, Field &field) {
  if (!value) return tl::unexpected(value.error());
  field = static_cast<Field>(*value);
  return {};
}

Result<void> read_head_dim(const gguf::File &file, const Metadata &metadata, Config &config) {
  // As in llama.cpp, a file that does not say has heads that divide the hidden size.
  uint32_t absent = config.hidden / config.heads;
  auto key_length = metadata.whole_or("attention.key_length", 2, kMostHeadDim, absent);
  if (!key_length) return tl::unexpected(key_length.error());
  auto value_length = metadata.whole_or("attention.value_length", 2, kMostHeadDim, absent);
  if (!value_length) return tl::unexpected(value_length.error());
  if (*key_length != *value_length) {
    return fail("{}: qwen3.attention.value_length: expected {} as attention.key_length, found {}", file.path(),
                *key_length, *value_length);
  }
  if (*key_length < 2 || *key_length > kMostHeadDim || *key_length % 2 != 0) {
    return fail("{}: qwen3.attention.key_length: expected an even number from 2 to {}, found {}", file.path(),
                kMostHeadDim, *key_length);
  }
  config.head_dim = *key_length;
  return metadata.only("rope.dimension_count", fmt::format("{} as attention.key_length", config.head_dim),
                       [&](const gguf::Value &value) { return value.as_uint() == config.head_dim; });
}

Result<void> read_shape(const gguf::File &file, const Metadata &metadata, Config &config) {
  if (auto done = store(metadata.whole("block_count", 1, kMostLayers), config.layers); !done) return done;
  if (auto done = store(metadata.whole("embedding_length", 1, kMostHidden), config.hidden); !done) return done;
  if (auto done = store(metadata.whole("context_length", 1, kMostContext), config.context); !done) return done;
  const auto of_layers = [&](std::string_view key, uint64_t most) {
    return metadata.whole_of_layers(key, 1, most, config.layers);
  };
  if (auto done = store(of_layers("feed_forward_length", kMostFfn), config.ffn); !done) return done;
  if (auto done = store(of_layers("attention.head_count", kMostHeads), config.heads); !done) return done;
  constexpr std::string_view kKvHeads = "attention.head_count_kv";
  config.kv_heads = config.heads;
  if (metadata.find(kKvHeads)) {
    if (auto done = store(of_layers(kKvHeads, config.heads), config.kv_heads); !done) return done;
  }
  if (config.heads % config.kv_heads != 0) {
    return fail("{}: qwen3.attention.head_count_kv: expected a divisor of the {} heads, found {}", file.path(),
                config.heads, config.kv_heads);
  }
  if (auto done = read_head_dim(file, metadata, config); !done) return done;
  auto epsilon = metadata.positive("attention.layer_norm_rms_epsilon");
  if (auto done = store(epsilon, config.rms_eps); !done) return done;
  if (config.rms_eps <= 0 || config.rms_eps > 1) {
    return fail("{}: qwen3.attention.layer_norm_rms_epsilon: expected a float32 above 0 and at most 1, found {}",
                file.path(), *epsilon);
  }
  return {};
}

// Keys that would change the arithmetic in ways that no backend knows.
Result<void> refuse_other_attention(const Metadata &metadata) {
  auto causal = metadata.only("attention.causal", "true (no other attention is computed)",
                              [](const gguf::Value &value) { return value.as_bool() == true; });
  if (!causal) return causal;
  return metadata.only("attention.sliding_window", "0 (attention sees the whole context)",
                       [](const gguf::Value &value) { return value.as_uint() == 0u; });
}

Result<void> check_scaling_keys(const gguf::File &file) {
  constexpr std::string_view kPrefix = "qwen3.rope.scaling.";
  constexpr std::array<std::string_view, 10> kKnown = {
      "type",           "factor",         "original_context_length", "attn_factor",      "finetuned",
      "yarn_beta_fast", "yarn_beta_slow", "yarn_ext_factor",         "yarn_attn_factor", "yarn_log_multiplier"};
  for (const auto &[key, value] : file.metadata()) {
    if (!key.starts_with(kPrefix)) continue;
    std::string_view rest = key.substr(kPrefix.size());
    if (std::find(kKnown.begin(), kKnown.end(), rest) == kKnown.end()) {
      return fail("{}: {}: not a scaling that this runtime computes", file.path(), printable(key));
    }
  }
  return {};
}

Result<RopeScaling::Kind> read_scaling_kind(const gguf::File &file, const Metadata &metadata) {
  const gguf::Value *value = metadata.find("rope.scaling.type");
  // llama.cpp's rule: a factor without a type is linear.
  if (!value) return metadata.find("rope.scaling.factor") ? RopeScaling::Kind::kLinear : RopeScaling::Kind::kNone;
  auto type = value->as_string();
  if (type == "none") return RopeScaling::Kind::kNone;
  if (type == "linear") return RopeScaling::Kind::kLinear;
  if (type == "yarn") return RopeScaling::Kind::kYarn;
  return fail("{}: qwen3.rope.scaling.type: expected \"none\", \"linear\" or \"yarn\", found {}", file.path(),
              describe(*value));
}

// What other runtimes disagree about, or what is not computed here, passes only at the value that changes nothing.
Result<void> refuse_yarn_variants(const Metadata &metadata, bool yarn) {
  auto number_is = [](double wanted) {
    return [wanted](const gguf::Value &value) { return value.as_number() == wanted; };
  };
  double plain_extrapolation = yarn ? 1 : 0;
  auto done = metadata.only("rope.scaling.yarn_ext_factor", fmt::format("{}", plain_extrapolation),
                            number_is(plain_extrapolation));
  if (!done) return done;
  return metadata.only("rope.scaling.yarn_log_multiplier", "0", number_is(0));
}

Result<void> read_yarn(const gguf::File &file, const Metadata &metadata, const Config &config, RopeScaling &scaling) {
  auto original = metadata.whole_or("rope.scaling.original_context_length", 1, kMostContext, config.context);
  if (auto done = store(original, scaling.original_context); !done) return done;
  if (auto done = store(metadata.positive_or("rope.scaling.yarn_beta_fast", 32), scaling.beta_fast); !done) return done;
  if (auto done = store(metadata.positive_or("rope.scaling.yarn_beta_slow", 1), scaling.beta_slow); !done) return done;
  if (scaling.beta_fast < scaling.beta_slow) {
    return fail("{}: qwen3.rope.scaling.yarn_beta_fast: expected at least yarn_beta_slow ({}), found {}", file.path(),
                scaling.beta_slow, scaling.beta_fast);
  }
  if (config.rope_base <= 1) {
    return fail("{}: qwen3.rope.freq_base: expected more than 1 with YaRN, found {}", file.path(), config.rope_base);
  }
  scaling.attention_factor *= 1 + 0.1 * static_cast<double>(elementary::log(scaling.factor));
  return {};
}

Result<void> read_rope(const gguf::File &file, const Metadata &metadata, Config &config) {
  if (auto done = store(metadata.positive_or("rope.freq_base", 10000), config.rope_base); !done) return done;
  if (config.rope_base < 1) {
    return fail("{}: qwen3.rope.freq_base: expected at least 1, found {}", file.path(), config.rope_base);
  }
  auto unscaled = metadata.only("rope.scale_linear", "1 (rope.scaling.factor is the key for it)",
                                [](const gguf::Value &value) { return value.as_number() == 1.0; });
  if (!unscaled) return unscaled;
  if (auto done = check_scaling_keys(file); !done) return done;

  RopeScaling &scaling = config.rope_scaling;
  auto kind = read_scaling_kind(file, metadata);
  if (!kind) return tl::unexpected(kind.error());
  scaling.kind = *kind;
  const bool yarn = scaling.kind == RopeScaling::Kind::kYarn;
  if (auto done = refuse_yarn_variants(metadata, yarn); !done) return done;
  constexpr double kMostAttention = 1000;  // models have some 1; far beyond it scores leave all numbers
  auto attention_factor = metadata.positive_or("rope.scaling.attn_factor", 1);
  if (attention_factor && *attention_factor > kMostAttention)
    return fail("{}: qwen3.rope.scaling.attn_factor: expected at most {}, found {}", file.path(), kMostAttention,
                *attention_factor);
  if (auto done = store(attention_factor, scaling.attention_factor); !done) return done;
  if (scaling.kind == RopeScaling::Kind::kNone) return {};

  if (auto done = store(metadata.positive("rope.scaling.factor"), scaling.factor); !done) return done;
  if (scaling.factor < 1) {
    return fail("{}: qwen3.rope.scaling.factor: expected at least 1, found {}", file.path(), scaling.factor);
  }
  return yarn ? read_yarn(file, metadata, config, scaling) : Result<void>{};
}

Result<void> read_vocab(const gguf::File &file, const Metadata &metadata, Config &config,
                        std::vector<std::string> &warnings) {
  if (file.tensors().empty()) {
    return fail("{}: the file holds no tensors: it can tokenize, but there is no model to run", file.path());
  }
  const gguf::Tensor *embedding = file.find_tensor("token_embd.weight");
  if (!embedding) return fail("{}: token_embd.weight: missing, expected a row per token", file.path());
  if (embedding->rows() > kMostVocab) {
    return fail("{}: token_embd.weight: expected at most {} rows, found {}", file.path(), kMostVocab,
                embedding->rows());
  }
  config.vocab = static_cast<uint32_t>(embedding->rows());
  auto compare = [&](std::string_view key, std::optional<uint64_t> stated) {
    if (!stated || *stated == config.vocab) return;
    warnings.push_back(fmt::format("{}: {} says {} tokens, token_embd.weight has {} rows; the tensor is right",
                                   file.path(), key, *stated, config.vocab));
  };
  if (const gguf::Value *value = metadata.find("vocab_size")) compare("qwen3.vocab_size", value->as_uint());
  if (const gguf::Value *value = file.find("tokenizer.ggml.tokens")) {
    if (const gguf::Array *tokens = value->as_array()) compare("tokenizer.ggml.tokens", tokens->count);
  }
  return {};
}

// llama.cpp's converter writes here what Hugging Face's code ignores, and its own loader does not read it for a Qwen3.
void warn_of_ignored_factor(const gguf::File &file, const Metadata &metadata, std::vector<std::string> &warnings) {
  const gguf::Value *value = metadata.find("rope.scaling.yarn_attn_factor");
  if (!value || value->as_number() == 1.0) return;
  warnings.push_back(fmt::format(
      "{}: qwen3.rope.scaling.yarn_attn_factor: ignored (attn_factor is the key that counts)", file.path()));
}

// llama.cpp's numbers, as files of embedding models have them: 0 none, 1 mean, 3 last. What else there is (2 the first
// token's, 4 a ranking) is for other models.
void read_pooling(const gguf::File &file, const Metadata &metadata, Config &config,
                  std::vector<std::string> &warnings) {
  const gguf::Value *value = metadata.find("pooling_type");
  const auto type = value != nullptr ? value->as_uint() : std::optional<uint64_t>(0);
  config.pools_last = type == 3u;
  if (!type || *type == 2 || *type > 3)
    warnings.push_back(
        fmt::format("{}: qwen3.pooling_type: expected 1 (mean) or 3 (last), found {}; embeddings are the mean",
                    file.path(), describe(*value)));
}

}  // namespace

Result<Config> read_config(const gguf::File &file, std::vector<std::string> &warnings) {
  const DefaultFloatingPoint environment;  // numbers are rounded, and logarithms taken
  if (auto done = check_architecture(file); !done) return tl::unexpected(done.error());
  Config config;
  const Metadata metadata(file);
  if (const gguf::Value *name = file.find("general.name")) config.name = name->as_string().value_or("");
  if (auto done = read_vocab(file, metadata, config, warnings); !done) return tl::unexpected(done.error());
  if (auto done = read_shape(file, metadata, config); !done) return tl::unexpected(done.error());
  if (auto done = refuse_other_attention(metadata); !done) return tl::unexpected(done.error());
  if (auto done = read_rope(file, metadata, config); !done) return tl::unexpected(done.error());
  warn_of_ignored_factor(file, metadata, warnings);
  read_pooling(file, metadata, config, warnings);
  return config;
}

}  // namespace bonsai::model
