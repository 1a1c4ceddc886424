// Proposes what followed the last few tokens where they stood before: prompt lookup.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "host/speculation/drafter.h"

namespace bonsai::host {

// For every run of 2 to 6 tokens it remembers where it stood last. A token costs the same however long the text is, and
// whatever stands there: runs are found by hashes under keys that nobody knows, and proposals do not depend on these.
class LookupDrafter final : public Drafter {
 public:
  static constexpr size_t kShortest = 2, kLongest = 6;
  using Keys = std::array<std::array<uint64_t, 2 + kLongest>, 2>;

  explicit LookupDrafter(const Keys &keys = random_keys()) : keys_(keys) {}

  void begin(std::span<const int32_t> text) override;
  void append(int32_t token) override;
  std::optional<Evidence> evidence() override;
  // Always `most` tokens: where the earlier text reaches the present end it goes on with what is proposed, so that a
  // short period is continued any number of times.
  void propose(uint32_t most, std::vector<int32_t> &tokens) override;
  bool is_free() const override { return true; }

 private:
  static Keys random_keys();
  uint64_t hash(std::span<const int32_t> run) const;
  std::optional<size_t> find(size_t n) const;
  size_t common_length(size_t follower) const;

  const Keys keys_;
  std::vector<int32_t> text_;
  std::unordered_map<uint64_t, uint32_t> followers_;  // by a run's hash: where the token behind it stands
  size_t match_ = 0;                                  // the follower that evidence() found
};

}  // namespace bonsai::host
