#include "core/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/base/utf8.h"
#include "core/text/byte_alphabet.h"
#include "core/text/merges.h"
#include "core/text/nfc.h"
#include "core/text/pre_tokenizer.h"
#include "core/text/special_tokens.h"
#include "core/text/token_index.h"
#include "core/text/token_types.h"
#include "core/text/utf8.h"

namespace bonsai::text {
namespace {

// Types of tokens that are looked for in a text as they are spelled.
constexpr bool stands_as_it_is(int32_t type) { return type == kControl || type == kUserDefined; }

// Bytes of such a spelling, ten times what models have: to look for one takes the text's length times its own.
constexpr size_t kLongestSpecial = 256;

// Tokens that end a turn or a document whether or not the file says so, and whichever type it gives them: Qwen's chat
// files name one as eos and rely on the other, its base files the other way round. Names that llama.cpp knows, too, but
// for those of vocabularies in which "<|end|>" ends only a part of an answer.
constexpr std::string_view kEndNames[] = {
    "<|im_end|>", "<|endoftext|>",   "<|eot_id|>",    "<|eom_id|>",
    "<|end|>",    "<|end_of_text|>", "<end_of_turn>", "<end_of_utterance>",
    "<EOT>",      "_<EOT>",          "[EOT]",         "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};

// What stands between the files of a repository: what follows belongs to another text. Qwen's own tokenizer has these
// as user-defined tokens, and that they stay, so that a text's ids are the ones that the model was trained with.
constexpr std::string_view kFileEndNames[] = {"<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"};

// What answers in a chat are read by: they show, whichever type the file gives them. Qwen's files have them as
// user-defined tokens, models trained on from these sometimes as control tokens.
constexpr std::string_view kAnswerTags[] = {"<think>", "</think>", "<tool_call>", "</tool_call>"};

bool is_answer_tag(std::string_view spelling) {
  return std::find(std::begin(kAnswerTags), std::end(kAnswerTags), spelling) != std::end(kAnswerTags);
}

// NFC makes a text at most three times as long, and positions within a word are 32 bits.
constexpr size_t kMostTextBytes = size_t{1} << 30;

Result<void> check_text(std::string_view text) {
  if (text.size() > kMostTextBytes) {
    return fail("text of {} bytes is too long to tokenize; expected at most {}", text.size(), kMostTextBytes);
  }
  if (const size_t offset = find_invalid_utf8(text); offset != std::string_view::npos) {
    return fail("invalid UTF-8 at byte offset {}", offset);
  }
  return {};
}

}  // namespace

struct Tokenizer::State {
  TokenizerData data;  // without the merges
  TokenIndex index;
  MergeTable merges;
  PreTokenizer pre_tokenizer;
  std::array<int32_t, 256> byte_tokens{};
  SpecialMatcher parsed_tokens;        // control and user-defined
  SpecialMatcher user_defined_tokens;  // what is a token even in plain text
  SpecialMatcher control_tokens;
  std::vector<int32_t> ends;  // sorted
  std::vector<std::string> warnings;

  State(TokenizerData from, PreTokenizer pattern)
      : data(std::move(from)), merges(data.merges.size()), pre_tokenizer(std::move(pattern)) {}

  Result<void> settle_types();
  Result<void> check_tokens();
  void make_ends_control();
  void drop_strange_ids();
  Result<void> check_wanted_ids() const;
  Result<void> resolve_bytes();
  Result<void> resolve_merges();
  Result<int32_t> resolve_part(size_t merge, std::string_view spelling) const;
  void collect_special_tokens();
  void collect_ends();

  // Appends the ids of a text in which `specials` count.
  Result<void> encode(std::string_view text, const SpecialMatcher &specials, std::vector<int32_t> &ids) const;
  Result<void> encode_words(std::string_view text, WordMerger &merger, std::vector<int32_t> &word,
                            std::vector<int32_t> &ids) const;
  void decode(int32_t id, bool show_control, std::string &out) const;
  std::optional<int32_t> find(std::string_view spelling) const { return index.find(data.tokens, spelling); }
};

// A type for each token. Files that lack them, have more or leave some undefined are taken as llama.cpp takes them:
// there an undefined token shows nothing, as an unused one does.
Result<void> Tokenizer::State::settle_types() {
  std::vector<int32_t> &types = data.types;
  const size_t n_tokens = data.tokens.size(), n_types = types.size();
  if (n_types == 0 && n_tokens > 0) {
    types.assign(n_tokens, kNormal);
    warnings.push_back("tokenizer.ggml.token_type is missing or empty; every token is taken as normal");
  } else if (n_types < n_tokens) {
    return fail("tokenizer.ggml.token_type has {} elements; expected one for each of the {} tokens", n_types, n_tokens);
  } else if (n_types > n_tokens) {
    types.resize(n_tokens);
    warnings.push_back(fmt::format("tokenizer.ggml.token_type has {} elements for {} tokens; the last {} are ignored",
                                   n_types, n_tokens, n_types - n_tokens));
  }
  size_t n_undefined = 0;
  for (size_t id = 0; id < n_tokens; ++id) {
    if (types[id] < kUndefined || types[id] > kByte)
      return fail("tokenizer.ggml.token_type[{}] is {}; expected 0 to 6", id, types[id]);
    if (types[id] != kUndefined) continue;
    types[id] = kUnused;
    ++n_undefined;
  }
  if (n_undefined > 0) {
    warnings.push_back(fmt::format(
        "tokenizer.ggml.token_type is 0 (undefined) for {} of the {} tokens; taken as unused", n_undefined, n_tokens));
  }
  return {};
}

Result<void> Tokenizer::State::check_tokens() {
  const std::vector<std::string> &tokens = data.tokens;
  if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return fail("tokenizer.ggml.tokens has {} elements; expected at most 2147483647", tokens.size());
  }
  if (auto settled = settle_types(); !settled) return settled;
  size_t n_empty = 0;
  for (size_t id = 0; id < tokens.size(); ++id) {
    n_empty += tokens[id].empty();
    if (find_invalid_utf8(tokens[id]) != std::string_view::npos) {
      return fail("tokenizer.ggml.tokens[{}] is {}, which is not UTF-8", id, bonsai::quoted(tokens[id]));
    }
    if (stands_as_it_is(data.types[id]) && tokens[id].size() > kLongestSpecial) {
      return fail("tokenizer.ggml.tokens[{}] is a control or user-defined token of {} bytes; expected at most {}", id,
                  tokens[id].size(), kLongestSpecial);
    }
  }
  if (const auto twin = index.build(tokens)) {
    const std::string &spelling = tokens[static_cast<size_t>(*twin)];
    return fail("tokenizer.ggml.tokens[{}] is {}, which is token {} already", *twin, bonsai::quoted(spelling),
                *find(spelling));
  }
  if (n_empty > 0)
    warnings.push_back(fmt::format("tokenizer.ggml.tokens has {} empty elements, which no text gives", n_empty));
  return {};
}

// Whether a merge makes the token: then it is what its characters are in plain text.
bool is_merged(const TokenizerData &data, std::string_view token) {
  return std::ranges::any_of(data.merges, [token](std::string_view merge) {
    const size_t space = merge.find(' ');
    return merge.size() == token.size() + 1 && merge.substr(0, space) == token.substr(0, space) &&
           merge.substr(space + 1) == token.substr(space);
  });
}

// A file in which such a token is of another type would show it at an answer's end.
void Tokenizer::State::make_ends_control() {
  std::string changed;
  for (const std::string_view name : kEndNames) {
    const auto id = find(name);
    if (!id || data.types[static_cast<size_t>(*id)] == kControl || is_merged(data, name)) continue;
    data.types[static_cast<size_t>(*id)] = kControl;
    changed += fmt::format("{}{}", changed.empty() ? "" : ", ", bonsai::quoted(name));
  }
  if (changed.empty()) return;
  warnings.push_back(
      fmt::format("tokenizer.ggml.token_type has another type than control for {}, with which a text ends; taken as "
                  "control",
                  changed));
}

// Files name tokens that they do not have, which matters only where such a token is wanted.
void Tokenizer::State::drop_strange_ids() {
  const auto is_strange = [&](int32_t id) { return id < 0 || static_cast<size_t>(id) >= data.tokens.size(); };
  const auto warn = [&](std::string_view key) {
    warnings.push_back(fmt::format("{} is no id below {}, the number of tokens; ignored", key, data.tokens.size()));
  };
  for (const auto &[key, id] :
       {std::pair{"tokenizer.ggml.bos_token_id", &data.bos}, std::pair{"tokenizer.ggml.eos_token_id", &data.eos}}) {
    if (!*id || !is_strange(**id)) continue;
    id->reset();
    warn(key);
  }
  if (std::erase_if(data.more_eos, is_strange) > 0)
    warn("tokenizer.ggml.eot_token_id, eom_token_id or an element of eos_token_ids");
}

Result<void> Tokenizer::State::check_wanted_ids() const {
  if (data.add_bos && !data.bos) {
    return fail("tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is missing or no token's");
  }
  if (data.add_eos && !data.eos) {
    return fail("tokenizer.ggml.add_eos_token is true, but tokenizer.ggml.eos_token_id is missing or no token's");
  }
  return {};
}

// Any byte may occur in a text, so every one must have a token.
Result<void> Tokenizer::State::resolve_bytes() {
  for (size_t byte = 0; byte < byte_tokens.size(); ++byte) {
    std::string spelling;
    append_utf8(spelling, kByteAlphabet[byte]);
    const auto id = find(spelling);
    if (!id)
      return fail("tokenizer.ggml.tokens has no token for byte {:#04x}, spelled {}", byte, bonsai::quoted(spelling));
    byte_tokens[byte] = *id;
  }
  return {};
}

Result<int32_t> Tokenizer::State::resolve_part(size_t merge, std::string_view spelling) const {
  const auto id = find(spelling);
  if (!id) {
    return fail("tokenizer.ggml.merges[{}] is {}, but there is no token {}", merge, bonsai::quoted(data.merges[merge]),
                bonsai::quoted(spelling));
  }
  return *id;
}

Result<void> Tokenizer::State::resolve_merges() {
  std::string joined;
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view merge = data.merges[rank];
    const size_t space = merge.find(' ');
    if (space == merge.npos || space == 0 || space + 1 == merge.size() || merge.find(' ', space + 1) != merge.npos) {
      return fail("tokenizer.ggml.merges[{}] is {}; expected two tokens with one space between them", rank,
                  bonsai::quoted(merge));
    }
    joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const auto left = resolve_part(rank, merge.substr(0, space));
    if (!left) return tl::unexpected(left.error());
    const auto right = resolve_part(rank, merge.substr(space + 1));
    if (!right) return tl::unexpected(right.error());
    const auto token = resolve_part(rank, joined);
    if (!token) return tl::unexpected(token.error());
    merges.add(*left, *right, {static_cast<uint32_t>(rank), *token});
  }
  data.merges = {};
  return {};
}

void Tokenizer::State::collect_special_tokens() {
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    if (!stands_as_it_is(data.types[id])) continue;
    parsed_tokens.add(data.tokens[id], static_cast<int32_t>(id));
    SpecialMatcher &others = data.types[id] == kControl ? control_tokens : user_defined_tokens;
    others.add(data.tokens[id], static_cast<int32_t>(id));
  }
  control_tokens.finish();
  user_defined_tokens.finish();
  parsed_tokens.finish();
}

void Tokenizer::State::collect_ends() {
  ends = data.more_eos;
  if (data.eos) ends.push_back(*data.eos);
  const auto add = [this](std::string_view name) {
    if (const auto id = find(name)) ends.push_back(*id);
  };
  std::for_each(std::begin(kEndNames), std::end(kEndNames), add);
  std::for_each(std::begin(kFileEndNames), std::end(kFileEndNames), add);
  std::sort(ends.begin(), ends.end());
}

Result<void> Tokenizer::State::encode_words(std::string_view text, WordMerger &merger, std::vector<int32_t> &word,
                                            std::vector<int32_t> &ids) const {
  WordCursor words(pre_tokenizer, text);
  while (true) {
    const auto bytes = words.next();
    if (!bytes) return tl::unexpected(bytes.error());
    if (bytes->empty()) return {};
    word.clear();
    for (const char byte : *bytes) word.push_back(byte_tokens[static_cast<uint8_t>(byte)]);
    merger.merge(word, ids);
  }
}

void Tokenizer::State::decode(int32_t id, bool show_control, std::string &out) const {
  if (id < 0 || static_cast<size_t>(id) >= data.tokens.size()) return;
  const std::string &spelling = data.tokens[static_cast<size_t>(id)];
  switch (data.types[static_cast<size_t>(id)]) {
    case kUserDefined:
      out += spelling;
      break;
    case kControl:
      if (show_control || is_answer_tag(spelling)) out += spelling;
      break;
    case kUnknown:
    case kUnused:
      if (show_control) out += spelling;
      break;
    default:
      append_bytes_of_spelling(spelling, out);
  }
}

Result<Tokenizer> Tokenizer::create(TokenizerData data) {
  auto pattern = PreTokenizer::create(data.pre);
  if (!pattern) return tl::unexpected(pattern.error());
  if (find_invalid_utf8(data.chat_template) != std::string_view::npos) {
    return fail("tokenizer.chat_template is not UTF-8 at byte offset {}", find_invalid_utf8(data.chat_template));
  }
  auto state = std::make_unique<State>(std::move(data), std::move(*pattern));
  if (auto ok = state->check_tokens(); !ok) return tl::unexpected(ok.error());
  state->make_ends_control();
  state->drop_strange_ids();
  if (auto ok = state->check_wanted_ids(); !ok) return tl::unexpected(ok.error());
  if (auto ok = state->resolve_bytes(); !ok) return tl::unexpected(ok.error());
  if (auto ok = state->resolve_merges(); !ok) return tl::unexpected(ok.error());
  state->collect_special_tokens();
  state->collect_ends();
  return Tokenizer(std::move(state));
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer &&) noexcept = default;
Tokenizer &Tokenizer::operator=(Tokenizer &&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<void> Tokenizer::State::encode(std::string_view text, const SpecialMatcher &specials,
                                      std::vector<int32_t> &ids) const {
  WordMerger merger(merges);
  std::vector<int32_t> word;
  for (size_t at = 0; at < text.size();) {
    const auto match = specials.find(text, at);
    const size_t end = match ? match->begin : text.size();
    if (auto ok = encode_words(normalize_nfc(text.substr(at, end - at)), merger, word, ids); !ok) return ok;
    if (match) ids.push_back(match->id);
    at = match ? match->end : end;
  }
  return {};
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  if (auto ok = check_text(text); !ok) return tl::unexpected(ok.error());
  std::vector<int32_t> ids;
  const bool parse = special == SpecialTokens::kParse;
  auto ok = state_->encode(text, parse ? state_->parsed_tokens : state_->user_defined_tokens, ids);
  if (!ok) return tl::unexpected(ok.error());
  return ids;
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, std::span<const ByteRange> trusted) const {
  if (auto ok = check_text(text); !ok) return tl::unexpected(ok.error());
  std::vector<int32_t> ids;
  size_t done = 0;  // what lies before has been encoded
  const auto encode_until = [&](size_t end) {
    return state_->encode(text.substr(done, end - done), state_->user_defined_tokens, ids);
  };
  for (const ByteRange &range : trusted) {
    const std::string_view visible = text.substr(0, range.end);
    while (const auto match = state_->control_tokens.find(visible, std::max(done, range.begin))) {
      if (auto ok = encode_until(match->begin); !ok) return tl::unexpected(ok.error());
      ids.push_back(match->id);
      done = match->end;
    }
  }
  if (auto ok = encode_until(text.size()); !ok) return tl::unexpected(ok.error());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool show_control) const {
  std::string out;
  for (const int32_t id : ids) state_->decode(id, show_control, out);
  return out;
}

uint32_t Tokenizer::size() const { return static_cast<uint32_t>(state_->data.tokens.size()); }
std::optional<int32_t> Tokenizer::bos() const { return state_->data.bos; }
std::optional<int32_t> Tokenizer::eos() const { return state_->data.eos; }
bool Tokenizer::add_bos() const { return state_->data.add_bos; }
bool Tokenizer::add_eos() const { return state_->data.add_eos; }
const std::vector<std::string> &Tokenizer::warnings() const { return state_->warnings; }
const std::string &Tokenizer::chat_template() const { return state_->data.chat_template; }
std::optional<int32_t> Tokenizer::find(std::string_view token) const { return state_->find(token); }

bool Tokenizer::is_control(int32_t id) const {
  return id >= 0 && static_cast<uint32_t>(id) < size() && state_->data.types[static_cast<size_t>(id)] == kControl;
}

bool Tokenizer::is_special(int32_t id) const {
  if (id < 0 || static_cast<uint32_t>(id) >= size()) return true;
  const int32_t type = state_->data.types[static_cast<size_t>(id)];
  return type != kNormal && type != kByte;
}

bool Tokenizer::is_end_of_generation(int32_t id) const {
  return std::binary_search(state_->ends.begin(), state_->ends.end(), id);
}

std::string_view Tokenizer::spelling(int32_t id) const {
  if (id < 0 || static_cast<uint32_t>(id) >= size()) return {};
  return state_->data.tokens[static_cast<size_t>(id)];
}

}  // namespace bonsai::text
