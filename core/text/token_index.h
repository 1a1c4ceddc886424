// Ids by spelling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::text {

// An open-addressing table over a list of tokens that it does not own: no string is copied. Lookups take the list as an
// argument, so that both can be moved together.
class TokenIndex {
 public:
  // Adds every token of the list but the empty ones, which nothing is spelled as. Returns the later id of the first
  // pair that is spelled alike, if there is one.
  std::optional<int32_t> build(const std::vector<std::string> &tokens);

  std::optional<int32_t> find(const std::vector<std::string> &tokens, std::string_view spelling) const;

 private:
  struct Slot {
    uint32_t tag;  // the hash's upper half, so that most misses touch no string
    int32_t id;    // kEmpty: free
  };
  static constexpr int32_t kEmpty = -1;

  // The slot that holds `spelling`, or the free one where it would go.
  size_t slot_of(const std::vector<std::string> &tokens, std::string_view spelling, size_t hash) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace bonsai::text
