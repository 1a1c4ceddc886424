// The tokenizer's keys in GGUF metadata (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer), both
// ways.
#include <limits>
#include <numeric>
#include <span>
#include <unordered_set>

#include "core/base/utf8.h"
#include "core/gguf/file.h"
#include "core/gguf/writer.h"
#include "core/text/token_types.h"
#include "core/text/tokenizer.h"

namespace bonsai::text {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model";
constexpr std::string_view kPre = "tokenizer.ggml.pre";
constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTokenType = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kBos = "tokenizer.ggml.bos_token_id";
constexpr std::string_view kEos = "tokenizer.ggml.eos_token_id";
constexpr std::string_view kPad = "tokenizer.ggml.padding_token_id";
constexpr std::string_view kEndOfTurn = "tokenizer.ggml.eot_token_id";
constexpr std::string_view kEndOfMessage = "tokenizer.ggml.eom_token_id";
constexpr std::string_view kMoreEos = "tokenizer.ggml.eos_token_ids";
constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
constexpr std::string_view kAddEos = "tokenizer.ggml.add_eos_token";
constexpr std::string_view kChatTemplate = "tokenizer.chat_template";

// Reads one key after the other; every error begins with the file's path and the key.
class MetadataReader {
 public:
  explicit MetadataReader(const gguf::File &file) : file_(file) {}

  Result<std::string> string(std::string_view key) const {
    const gguf::Value *value = file_.find(key);
    if (value == nullptr) return missing(key);
    const auto text = value->as_string();
    if (!text) return fail("{}: {} is not a string", file_.path(), key);
    return std::string(*text);
  }

  Result<std::vector<std::string>> strings(std::string_view key) const {
    const gguf::Value *value = file_.find(key);
    if (value == nullptr) return missing(key);
    const gguf::Array *array = value->as_array();
    if (array == nullptr || array->element_type != gguf::ValueType::kString) {
      return fail("{}: {} is not an array of strings", file_.path(), key);
    }
    const std::vector<std::string_view> views = array->strings();
    return std::vector<std::string>(views.begin(), views.end());
  }

  Result<std::vector<int64_t>> integers(std::string_view key) const {
    const gguf::Value *value = file_.find(key);
    if (value == nullptr) return missing(key);
    const gguf::Array *array = value->as_array();
    auto integers = array == nullptr ? std::nullopt : array->integers();
    if (!integers) return fail("{}: {} is not an array of integers", file_.path(), key);
    return *std::move(integers);
  }

  Result<std::vector<int32_t>> int32s(std::string_view key) const {
    const auto wide = integers(key);
    if (!wide) return tl::unexpected(wide.error());
    std::vector<int32_t> values;
    values.reserve(wide->size());
    for (const int64_t element : *wide) {
      if (!fits(element)) {
        return fail("{}: {}[{}] is {}; expected a 32-bit integer", file_.path(), key, values.size(), element);
      }
      values.push_back(static_cast<int32_t>(element));
    }
    return values;
  }

  // Empty when the key is absent, -1 for an id that no token can have.
  Result<std::vector<int32_t>> ids(std::string_view key) const {
    std::vector<int32_t> ids;
    if (!has(key)) return ids;
    const auto wide = integers(key);
    if (!wide) return tl::unexpected(wide.error());
    for (const int64_t element : *wide) ids.push_back(fits(element) ? static_cast<int32_t>(element) : -1);
    return ids;
  }

  // nullopt when the key is absent, -1 where no token can have such an id.
  Result<std::optional<int32_t>> id(std::string_view key) const {
    const gguf::Value *value = file_.find(key);
    if (value == nullptr) return std::nullopt;
    const auto id = value->as_int();
    if (!id) return fail("{}: {} is not an integer", file_.path(), key);
    return fits(*id) ? static_cast<int32_t>(*id) : -1;
  }

  // Nothing is padded here, and files exist in which this is no token's.
  std::optional<int32_t> padding_id(size_t n_tokens) const {
    const gguf::Value *value = file_.find(kPad);
    const auto id = value == nullptr ? std::nullopt : value->as_uint();
    if (!id || *id >= n_tokens || !fits(static_cast<int64_t>(*id))) return std::nullopt;
    return static_cast<int32_t>(*id);
  }

  // `fallback` when the key is absent.
  Result<bool> boolean(std::string_view key, bool fallback) const {
    const gguf::Value *value = file_.find(key);
    if (value == nullptr) return fallback;
    const auto flag = value->as_bool();
    if (!flag) return fail("{}: {} is not a bool", file_.path(), key);
    return *flag;
  }

  bool has(std::string_view key) const { return file_.find(key) != nullptr; }

 private:
  tl::unexpected<Error> missing(std::string_view key) const { return fail("{}: {} is missing", file_.path(), key); }

  static bool fits(int64_t value) {
    return value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
  }

  const gguf::File &file_;
};

// Moves the value of `result` into `target`, or its error into `error`. Returns whether there was a value.
template <class T>
bool take(Result<T> result, T &target, Error &error) {
  if (result) {
    target = std::move(*result);
  } else {
    error = std::move(result.error());
  }
  return result.has_value();
}

}  // namespace

Result<TokenizerData> read_tokenizer(const gguf::File &file) {
  const MetadataReader reader(file);
  const auto model = reader.string(kModel);
  if (!model) return tl::unexpected(model.error());
  if (*model != "gpt2") {
    return fail("{}: {} is {}; expected 'gpt2' (byte-level BPE)", file.path(), kModel, bonsai::quoted(*model));
  }
  TokenizerData data;
  std::optional<int32_t> end_of_turn, end_of_message;
  Error error;
  const bool complete =
      take(reader.string(kPre), data.pre, error) && take(reader.strings(kTokens), data.tokens, error) &&
      (!reader.has(kTokenType) || take(reader.int32s(kTokenType), data.types, error)) &&
      take(reader.strings(kMerges), data.merges, error) && take(reader.id(kBos), data.bos, error) &&
      take(reader.id(kEos), data.eos, error) && take(reader.id(kEndOfTurn), end_of_turn, error) &&
      take(reader.id(kEndOfMessage), end_of_message, error) &&
      take(reader.boolean(kAddBos, false), data.add_bos, error) &&
      take(reader.boolean(kAddEos, false), data.add_eos, error) && take(reader.ids(kMoreEos), data.more_eos, error) &&
      (!reader.has(kChatTemplate) || take(reader.string(kChatTemplate), data.chat_template, error));
  if (!complete) return tl::unexpected(std::move(error));
  data.pad = reader.padding_id(data.tokens.size());
  if (end_of_message) data.more_eos.insert(data.more_eos.begin(), *end_of_message);
  if (end_of_turn) data.more_eos.insert(data.more_eos.begin(), *end_of_turn);
  return data;
}

void write_tokenizer(const TokenizerData &data, gguf::Writer &writer) {
  const auto set_id = [&](std::string_view key, std::optional<int32_t> id) {
    if (id) writer.set_uint32(key, static_cast<uint32_t>(*id));
  };
  writer.set_string(kModel, "gpt2");
  writer.set_string(kPre, data.pre);
  writer.set_strings(kTokens, data.tokens);
  writer.set_int32s(kTokenType, data.types);
  writer.set_strings(kMerges, data.merges);
  set_id(kBos, data.bos);
  set_id(kEos, data.eos);
  set_id(kPad, data.pad);
  if (!data.more_eos.empty()) {  // the first under the name that every reader of such files knows
    set_id(kEndOfTurn, data.more_eos.front());
    if (data.more_eos.size() > 1) writer.set_int32s(kMoreEos, std::span(data.more_eos).subspan(1));
  }
  writer.set_bool(kAddBos, data.add_bos);
  if (data.add_eos) writer.set_bool(kAddEos, true);
  if (!data.chat_template.empty()) writer.set_string(kChatTemplate, data.chat_template);
}

void make_unused(TokenizerData &data, std::span<const size_t> ids) {
  const std::unordered_set<std::string> taken(data.tokens.begin(), data.tokens.end());
  for (const size_t id : ids) {
    std::string spelling = fmt::format("[PAD{}]", id);
    while (taken.contains(spelling)) spelling += '_';
    data.tokens[id] = std::move(spelling);
    data.types[id] = kUnused;
  }
}

void pad_tokens(TokenizerData &data, size_t size) {
  if (data.tokens.size() >= size) return;
  if (data.types.empty()) data.types.assign(data.tokens.size(), kNormal);
  std::vector<size_t> ids(size - data.tokens.size());
  std::iota(ids.begin(), ids.end(), data.tokens.size());
  data.tokens.resize(size);
  data.types.resize(size);
  make_unused(data, ids);
}

}  // namespace bonsai::text
