#include "core/grammar/vocabulary.h"

#include <algorithm>
#include <optional>

#include "core/base/utf8.h"
#include "core/text/utf8.h"

namespace bonsai::grammar {
namespace {

// Limits of the groups of plain text. What a string's length still leaves room for is taken group by group, and only
// the group that it cuts through is looked at token by token.
constexpr uint32_t kLongest[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,   10,
                                 11, 12, 13, 14, 15, 16, 24, 32, 128, Vocabulary::kMostTokenBytes};

// Its length in characters if a token is plain text.
std::optional<uint32_t> plain_length(std::string_view bytes) {
  if (find_invalid_utf8(bytes) != std::string_view::npos) return std::nullopt;
  uint32_t length = 0;
  for (size_t at = 0; at < bytes.size(); ++length)
    if (!is_plain_text(text::next_code_point(bytes, at))) return std::nullopt;
  return length;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

class TrieBuilder {
 public:
  // `ids` are sorted by their bytes.
  static TokenTrie build(const std::vector<std::string> &tokens, const std::vector<int32_t> &ids) {
    TrieBuilder builder;
    std::string_view last;
    for (const int32_t id : ids) {
      const std::string_view bytes = tokens[static_cast<size_t>(id)];
      // A second token of the same bytes gets a last node of its own.
      const size_t shared = std::min(common_prefix(last, bytes), bytes.size() - 1);
      builder.close(shared);
      for (size_t depth = shared; depth < bytes.size(); ++depth) builder.open(static_cast<uint8_t>(bytes[depth]));
      builder.trie_.nodes.back().token = id;
      last = bytes;
    }
    builder.close(0);
    return std::move(builder.trie_);
  }

 private:
  void open(uint8_t byte) {
    path_.push_back(trie_.nodes.size());
    trie_.nodes.push_back({0, -1, static_cast<uint16_t>(path_.size()), byte});
  }
  void close(size_t depth) {
    for (; path_.size() > depth; path_.pop_back())
      trie_.nodes[path_.back()].end = static_cast<uint32_t>(trie_.nodes.size());
  }

  TokenTrie trie_;
  std::vector<size_t> path_;  // nodes whose end is not known yet
};

std::vector<std::string> ordinary_tokens(const text::Tokenizer &tokenizer, uint32_t size) {
  std::vector<std::string> tokens(size);
  for (int32_t id = 0; id < static_cast<int32_t>(std::min(size, tokenizer.size())); ++id)
    if (!tokenizer.is_special(id)) tokens[static_cast<size_t>(id)] = tokenizer.decode({&id, 1});
  return tokens;
}

std::vector<int32_t> end_tokens(const text::Tokenizer &tokenizer, uint32_t size) {
  std::vector<int32_t> ends;
  for (int32_t id = 0; id < static_cast<int32_t>(std::min(size, tokenizer.size())); ++id)
    if (tokenizer.is_end_of_generation(id)) ends.push_back(id);
  return ends;
}

}  // namespace

Vocabulary::Vocabulary(const text::Tokenizer &tokenizer, uint32_t size)
    : Vocabulary(ordinary_tokens(tokenizer, size), end_tokens(tokenizer, size)) {}

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::vector<int32_t> ends)
    : tokens_(std::move(tokens)), ends_(std::move(ends)) {
  std::sort(ends_.begin(), ends_.end());
  for (const int32_t end : ends_) tokens_[static_cast<size_t>(end)].clear();
  for (std::string &token : tokens_)
    if (token.size() > kMostTokenBytes) token.clear();
  make_groups();
}

bool Vocabulary::is_end(int32_t token) const { return std::binary_search(ends_.begin(), ends_.end(), token); }

void Vocabulary::make_groups() {
  constexpr size_t kOther = std::size(kLongest);
  std::vector<std::vector<int32_t>> ids(kOther + 1);
  for (int32_t id = 0; id < static_cast<int32_t>(size()); ++id) {
    if (bytes(id).empty()) continue;
    const auto length = plain_length(bytes(id));
    const size_t group =
        length ? static_cast<size_t>(std::lower_bound(kLongest, kLongest + kOther, *length) - kLongest) : kOther;
    ids[group].push_back(id);
  }
  for (size_t group = 0; group <= kOther; ++group) {
    std::stable_sort(ids[group].begin(), ids[group].end(), [&](int32_t a, int32_t b) { return bytes(a) < bytes(b); });
    Group &made = groups_.emplace_back();
    made.shortest = group == kOther ? 0 : group == 0 ? 1 : kLongest[group - 1] + 1;
    made.longest = group == kOther ? 0 : kLongest[group];
    if (group < kOther && !ids[group].empty()) longest_plain_text_ = kLongest[group];
    made.trie = TrieBuilder::build(tokens_, ids[group]);
    made.mask.assign(n_words(), 0);
    for (const int32_t id : ids[group]) made.mask[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
  }
}

}  // namespace bonsai::grammar
