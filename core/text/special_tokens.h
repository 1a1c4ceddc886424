// Finds the tokens that stand in a text as they are: "<|im_end|>" and its like.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::text {

class SpecialMatcher {
 public:
  struct Match {
    size_t begin;
    size_t end;
    int32_t id;
  };

  // A token with an empty spelling would be everywhere and is left out.
  void add(std::string_view spelling, int32_t id);
  // After the last add().
  void finish();

  // The longest token at the earliest position at or behind `from`. Time: the text up to the match times the longest
  // spelling that it begins, whatever the number of tokens.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  struct Entry {
    std::string spelling;
    int32_t id;
  };
  std::optional<Match> match_at(std::string_view text, size_t begin) const;

  std::vector<Entry> entries_;  // sorted by spelling: entries with a common prefix lie together, the shortest first
  std::array<bool, 256> is_first_byte_{};
};

}  // namespace bonsai::text
