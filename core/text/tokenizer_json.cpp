// Hugging Face's tokenizer.json and tokenizer_config.json (https://huggingface.co/docs/tokenizers/api/tokenizer).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <unordered_set>

#include "core/base/json_nesting.h"
#include "core/base/parse_json.h"
#include "core/base/utf8.h"
#include "core/text/nfc.h"
#include "core/text/pre_tokenizer.h"
#include "core/text/token_types.h"
#include "core/text/tokenizer.h"

namespace bonsai::text {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFile = "tokenizer.json";
constexpr std::string_view kConfigFile = "tokenizer_config.json";

// Four times the largest vocabularies in use. The list is as long as the largest id, so a file must not choose it
// freely.
constexpr int64_t kMostTokens = int64_t{1} << 20;

constexpr size_t kMostNesting = 100;  // ten times what such files need

Result<Json> parse(std::string_view file, std::string_view text) {
  if (is_nested_deeper(text, kMostNesting)) return fail("{}: nested more than {} deep", file, kMostNesting);
  try {
    auto document = parse_json<Json>(text);
    if (!document.is_object()) return fail("{}: expected an object, found {}", file, document.type_name());
    return document;
  } catch (const Json::parse_error &error) {
    return fail("{}: malformed JSON at byte {}", file, error.byte);
  } catch (const Json::out_of_range &) {
    return fail("{}: holds a number that no double can hold", file);
  }
}

// The member of an object, or nullptr. null counts as absent: that is how these files say "none".
const Json *member(const Json &object, const char *key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// The string at a key, or an empty one where there is no string.
std::string string_or_empty(const Json &object, const char *key) {
  const Json *value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool is_true(const Json &object, const char *key) {
  const Json *value = member(object, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

// An array's elements.
std::span<const Json> elements(const Json &array) { return array.get_ref<const Json::array_t &>(); }

// Puts tokens where their ids say and keeps what has been named already.
class VocabularyBuilder {
 public:
  explicit VocabularyBuilder(TokenizerData &data) : data_(data) {}

  // `where` names the element in errors.
  Result<void> add(const std::string &where, const Json &id, const std::string &token, int32_t type) {
    if (!id.is_number_integer()) return fail("{}: {} has an id that is not an integer", kFile, where);
    const bool huge = id.is_number_unsigned() && id.get<uint64_t>() >= static_cast<uint64_t>(kMostTokens);
    if (huge || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMostTokens) {
      return fail("{}: {} has the id {}; expected 0 to {}", kFile, where, id.dump(), kMostTokens - 1);
    }
    const auto at = id.get<size_t>();
    if (at >= named_.size()) {
      named_.resize(at + 1);
      data_.tokens.resize(at + 1);
      data_.types.resize(at + 1);
    }
    if (named_[at] && data_.tokens[at] != token) {
      return fail("{}: {} has the id {}, which is {} already", kFile, where, at, bonsai::quoted(data_.tokens[at]));
    }
    named_[at] = true;
    data_.tokens[at] = token;
    data_.types[at] = type;
    return {};
  }

  // Names the ids that nothing named.
  void fill_holes() {
    std::vector<size_t> holes;
    for (size_t id = 0; id < named_.size(); ++id) {
      if (!named_[id]) holes.push_back(id);
    }
    make_unused(data_, holes);
  }

 private:
  TokenizerData &data_;
  std::vector<bool> named_;
};

Result<void> read_vocabulary(const Json &model, VocabularyBuilder &vocabulary) {
  const Json *tokens = member(model, "vocab");
  if (tokens == nullptr || !tokens->is_object()) {
    return fail("{}: model.vocab is missing or not an object of tokens and ids", kFile);
  }
  for (auto token = tokens->begin(); token != tokens->end(); ++token) {
    auto ok = vocabulary.add(fmt::format("model.vocab[{}]", bonsai::quoted(token.key())), *token, token.key(), kNormal);
    if (!ok) return ok;
  }
  return {};
}

Result<void> read_added_tokens(const Json &document, VocabularyBuilder &vocabulary) {
  const Json *added = member(document, "added_tokens");
  if (added == nullptr) return {};
  if (!added->is_array()) return fail("{}: added_tokens is not an array", kFile);
  for (size_t i = 0; i < added->size(); ++i) {
    const Json &token = (*added)[i];
    const std::string where = fmt::format("added_tokens[{}]", i);
    const Json *id = member(token, "id");
    const Json *content = member(token, "content");
    if (id == nullptr || content == nullptr || !content->is_string()) {
      return fail("{}: {} is not an object with an id and a content", kFile, where);
    }
    for (const char *flag : {"lstrip", "rstrip", "single_word"}) {
      if (is_true(token, flag)) return fail("{}: {}.{} is true, which is not supported", kFile, where, flag);
    }
    const auto spelling = content->get<std::string>();
    // Here it is looked for in the text as it is given, which hardly ever differs from its normal form.
    if (is_true(token, "normalized") && normalize_nfc(spelling) != spelling) {
      return fail("{}: {} is {}, which is looked for in normalized texts, and not itself in NFC", kFile, where,
                  bonsai::quoted(spelling));
    }
    const int32_t type = is_true(token, "special") ? kControl : kUserDefined;
    if (auto ok = vocabulary.add(where, *id, spelling, type); !ok) return ok;
  }
  return {};
}

// "left right" of a merge that is written so or, in newer files, as ["left", "right"]; nullopt of anything else.
std::optional<std::string> to_merge(const Json &merge) {
  if (merge.is_string()) return merge.get<std::string>();
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) return std::nullopt;
  return merge[0].get<std::string>() + " " + merge[1].get<std::string>();
}

Result<std::vector<std::string>> read_merges(const Json &model) {
  const Json *merges = member(model, "merges");
  if (merges == nullptr || !merges->is_array()) return fail("{}: model.merges is missing or not an array", kFile);
  std::vector<std::string> result;
  result.reserve(merges->size());
  std::unordered_set<std::string> known;
  for (size_t i = 0; i < merges->size(); ++i) {
    auto merge = to_merge((*merges)[i]);
    if (!merge) return fail("{}: model.merges[{}] is neither a string nor a pair of strings", kFile, i);
    if (i == 0 && merge->starts_with("#version")) continue;  // as merges.txt begins
    // Of two the later one counts there, and the earlier one in GGUF's readers.
    if (!known.insert(*merge).second)
      return fail("{}: model.merges[{}] is {}, which is there before", kFile, i, bonsai::quoted(*merge));
    result.push_back(*std::move(merge));
  }
  return result;
}

// Whatever of the model's settings would change ids must be at the value that byte-level BPE as we do it has.
Result<void> check_model(const Json &document) {
  const Json *model = member(document, "model");
  if (model == nullptr || !model->is_object()) return fail("{}: model is missing or not an object", kFile);
  if (const std::string type = string_or_empty(*model, "type"); type != "BPE") {
    return fail("{}: model.type is {}; expected 'BPE'", kFile, bonsai::quoted(type));
  }
  if (is_true(*model, "ignore_merges")) return fail("{}: model.ignore_merges is true, which is not supported", kFile);
  if (const Json *dropout = member(*model, "dropout"); dropout != nullptr && *dropout != 0)
    return fail("{}: model.dropout is {}, which is not supported", kFile, dropout->dump());
  for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!string_or_empty(*model, key).empty()) return fail("{}: model.{} is set, which is not supported", kFile, key);
  }
  const Json *normalizer = member(document, "normalizer");
  if (normalizer == nullptr) return fail("{}: normalizer is missing; expected one of type 'NFC'", kFile);
  if (const std::string type = string_or_empty(*normalizer, "type"); type != "NFC") {
    return fail("{}: normalizer.type is {}; expected 'NFC'", kFile, bonsai::quoted(type));
  }
  return {};
}

bool is_plain_byte_level(const Json &step) {
  return string_or_empty(step, "type") == "ByteLevel" && !is_true(step, "add_prefix_space") &&
         member(step, "use_regex") != nullptr && !is_true(step, "use_regex");
}

// The name of the pre-tokenizer: a Split by a known pattern whose matches stand alone, then the byte alphabet.
Result<std::string> read_pre_tokenizer(const Json &document) {
  const Json *pre_tokenizer = member(document, "pre_tokenizer");
  const Json *steps = pre_tokenizer == nullptr ? nullptr : member(*pre_tokenizer, "pretokenizers");
  const bool two_steps = steps != nullptr && steps->is_array() && steps->size() == 2;
  if (!two_steps || string_or_empty(*pre_tokenizer, "type") != "Sequence" ||
      string_or_empty((*steps)[0], "type") != "Split" || string_or_empty((*steps)[0], "behavior") != "Isolated" ||
      is_true((*steps)[0], "invert") || !is_plain_byte_level((*steps)[1])) {
    return fail("{}: pre_tokenizer is not a sequence of Split (Isolated) and ByteLevel (no prefix space, no regex)",
                kFile);
  }
  const Json *pattern = member((*steps)[0], "pattern");
  const std::string regex = pattern == nullptr ? std::string() : string_or_empty(*pattern, "Regex");
  const auto pre = pre_tokenizer_of_pattern(regex);
  if (!pre) return fail("{}: pre_tokenizer splits by an unknown pattern: {}", kFile, bonsai::quoted(regex));
  return std::string(*pre);
}

// What is put around a text, which is itself the empty part; the others are special tokens.
Result<std::vector<std::string>> read_template(const Json &step) {
  std::vector<std::string> parts;
  const Json *single = member(step, "single");
  const bool has_parts = single != nullptr && single->is_array();
  for (const Json &part : has_parts ? elements(*single) : std::span<const Json>()) {
    const Json *text = member(part, "Sequence"), *token = member(part, "SpecialToken");
    const Json *named = text != nullptr ? text : token;
    parts.push_back(text != nullptr ? "" : named == nullptr ? "?" : string_or_empty(*named, "id"));
  }
  if (std::count(parts.begin(), parts.end(), "") != 1)
    return fail("{}: post_processor is a template that does not hold the text once", kFile);
  return parts;
}

std::optional<int32_t> find_token(const TokenizerData &data, std::string_view spelling) {
  const auto found = std::find(data.tokens.begin(), data.tokens.end(), spelling);
  if (found == data.tokens.end()) return std::nullopt;
  return static_cast<int32_t>(found - data.tokens.begin());
}

// Whether a template puts that token where it names it. Other tokens than the one of that name can be meant by it.
bool puts_token(const Json &step, const std::string &name, int32_t id) {
  const Json *tokens = member(step, "special_tokens");
  const Json *token = tokens == nullptr ? nullptr : member(*tokens, name.c_str());
  const Json *ids = token == nullptr ? nullptr : member(*token, "ids");
  return ids == nullptr || *ids == Json::array({id});
}

// What stands behind every text is its end; as in llama.cpp's files, the configuration's eos then ends a turn.
void set_last_token(int32_t id, TokenizerData &data) {
  if (data.eos && *data.eos != id) data.more_eos.push_back(*data.eos);
  data.eos = id;
  data.add_eos = true;
}

// Tokens that are put around every text: the configuration's bos in front, and any behind it.
Result<void> read_post_processor(const Json &document, TokenizerData &data) {
  const Json *whole = member(document, "post_processor");
  if (whole == nullptr) return {};
  const Json *steps = string_or_empty(*whole, "type") == "Sequence" ? member(*whole, "processors") : nullptr;
  for (const Json &step : steps != nullptr && steps->is_array() ? elements(*steps) : std::span(whole, 1)) {
    const std::string type = string_or_empty(step, "type");
    if (type == "ByteLevel") continue;  // changes offsets alone
    if (type != "TemplateProcessing")
      return fail("{}: post_processor is {}; expected ByteLevel or TemplateProcessing", kFile, bonsai::quoted(type));
    const auto parts = read_template(step);
    if (!parts) return tl::unexpected(parts.error());
    for (size_t i = 0; i < parts->size(); ++i) {
      const std::string &part = (*parts)[i];
      if (part.empty()) continue;
      const auto id = find_token(data, part);
      if (id && !puts_token(step, part, *id))
        return fail("{}: post_processor puts other tokens for {} than that one, {}", kFile, bonsai::quoted(part), *id);
      const bool is_first = i == 0, is_last = i + 1 == parts->size();
      if (is_first && id && id == data.bos) {
        data.add_bos = true;
      } else if (is_last && id) {
        set_last_token(*id, data);
      } else {
        return fail(
            "{}: post_processor adds {}; expected at most bos_token in front of a text and one token of the "
            "vocabulary behind it",
            kFile, bonsai::quoted(part));
      }
    }
  }
  return {};
}

// A token that the configuration names, as a string or as an object with its content; nullopt when it names none.
Result<std::optional<int32_t>> read_named_token(const Json &config, const char *key, const TokenizerData &data) {
  const Json *value = member(config, key);
  if (value == nullptr) return std::nullopt;
  const Json *content = value->is_object() ? member(*value, "content") : value;
  if (content == nullptr || !content->is_string()) return fail("{}: {} is not a token", kConfigFile, key);
  const auto spelling = content->get<std::string>();
  const auto found = find_token(data, spelling);
  if (!found) return fail("{}: {} is {}, which is not in the vocabulary", kConfigFile, key, bonsai::quoted(spelling));
  return found;
}

// One template, or a list of named ones, of which "default" is meant.
Result<std::string> read_chat_template(const Json &config, std::vector<std::string> &warnings) {
  const Json *value = member(config, "chat_template");
  if (value == nullptr) return std::string();
  if (value->is_string()) return value->get<std::string>();
  const bool is_list = value->is_array() && std::ranges::all_of(*value, [](const Json &named) {
                         return !string_or_empty(named, "name").empty() && member(named, "template") != nullptr &&
                                member(named, "template")->is_string();
                       });
  if (!is_list) return fail("{}: chat_template is neither a string nor a list of named templates", kConfigFile);
  std::string used;
  std::vector<std::string> others;
  for (const Json &named : *value) {
    const std::string name = string_or_empty(named, "name");
    if (name == "default") {
      used = string_or_empty(named, "template");
    } else {
      others.push_back(bonsai::quoted(name));
    }
  }
  if (!others.empty()) {
    warnings.push_back(fmt::format("{}: chat_template: only the one named 'default' is used; left out: {}", kConfigFile,
                                   fmt::join(others, ", ")));
  }
  return used;
}

Result<void> read_config(std::string_view text, TokenizerData &data, std::vector<std::string> &warnings) {
  const auto config = parse(kConfigFile, text);
  if (!config) return tl::unexpected(config.error());
  const auto bos = read_named_token(*config, "bos_token", data);
  const auto eos = read_named_token(*config, "eos_token", data);
  const auto pad = read_named_token(*config, "pad_token", data);
  for (const auto *token : {&bos, &eos, &pad}) {
    if (!*token) return tl::unexpected(token->error());
  }
  auto chat_template = read_chat_template(*config, warnings);
  if (!chat_template) return tl::unexpected(chat_template.error());
  data.bos = *bos;
  data.eos = *eos;
  data.pad = *pad;
  data.add_bos = is_true(*config, "add_bos_token");
  data.chat_template = std::move(*chat_template);
  return {};
}

}  // namespace

Result<TokenizerData> read_tokenizer_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json,
                                          std::vector<std::string> &warnings) {
  const auto document = parse(kFile, tokenizer_json);
  if (!document) return tl::unexpected(document.error());
  if (auto ok = check_model(*document); !ok) return tl::unexpected(ok.error());
  const Json &model = *member(*document, "model");
  auto pre = read_pre_tokenizer(*document);
  if (!pre) return tl::unexpected(pre.error());
  auto merges = read_merges(model);
  if (!merges) return tl::unexpected(merges.error());

  TokenizerData data;
  VocabularyBuilder vocabulary(data);
  if (auto ok = read_vocabulary(model, vocabulary); !ok) return tl::unexpected(ok.error());
  if (auto ok = read_added_tokens(*document, vocabulary); !ok) return tl::unexpected(ok.error());
  vocabulary.fill_holes();
  data.pre = std::move(*pre);
  data.merges = std::move(*merges);
  if (!tokenizer_config_json.empty()) {
    if (auto ok = read_config(tokenizer_config_json, data, warnings); !ok) return tl::unexpected(ok.error());
  }
  if (auto ok = read_post_processor(*document, data); !ok) return tl::unexpected(ok.error());
  if (member(*document, "truncation") != nullptr)
    warnings.push_back(fmt::format("{}: truncation is left out: texts keep all of their tokens", kFile));
  return data;
}

}  // namespace bonsai::text
