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
  // Both ways take turns; of the tokens of a turn the first ones are not counted: they are recorded as graphs.
  static constexpr uint32_t kTurns = 4, kTurnTokens = 8, kUncounted = 3;

  // The way that the next token takes.
  Way next();
  // Whether the token that took its way from next() is to be measured: all in turns, but those that are not counted.
  bool measures() const { return measures_; }
  // What a measured token took on the device.
  void note(Way way, double seconds);
  // The faster way, by the medians, once all turns have been noted.
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
