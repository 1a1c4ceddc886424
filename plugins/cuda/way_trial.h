// Which of two ways to run a token's layers is faster on the device at hand. Their bytes are the same, so it is tried
// with the tokens that come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace bonsai::cuda {

enum class Way : uint8_t {
  kApart,   // a kernel for each step
  kAtOnce,  // one kernel for all layers
};

class WayTrial {
 public:
  // Both ways take turns, of so many tokens, of which the first ones are not counted: by then the graph is recorded.
  // They do until each has been measured so often; a token that fails is never noted.
  static constexpr uint32_t kTurnTokens = 8, kUncounted = 3;
  static constexpr size_t kWanted = 10;

  // The way that the next token takes.
  Way next();
  // Whether the token that took its way from next() is to be measured.
  bool measures() const { return measures_; }
  // What a measured token took on the device.
  void note(Way way, double seconds);
  // The faster way, by the medians, once both have been measured often enough.
  std::optional<Way> winner() const { return winner_; }
  // Of the tokens that were noted; 0: none were.
  double median_seconds(Way way) const;

 private:
  std::vector<double> &seconds_of(Way way) { return seconds_[static_cast<size_t>(way)]; }

  uint32_t tokens_ = 0;  // that were told their way while there was no winner
  bool measures_ = false;
  std::array<std::vector<double>, 2> seconds_;
  std::optional<Way> winner_;
};

}  // namespace bonsai::cuda
