// A progress bar on stderr, for what takes longer than a moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace bonsai::cli {

// Shows nothing where stderr is no terminal, or one that cannot go back in its line. Erased when destroyed. May be
// called from any thread.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();
  ProgressBar(const ProgressBar &) = delete;
  ProgressBar &operator=(const ProgressBar &) = delete;

  // Cheap: draws ten times a second at most, and not before half a second has passed.
  void update(uint64_t done, uint64_t total);
  // Shows what is being done, until there is something newer to show.
  void note(std::string_view line);
  // Takes it away, for something that is to stay in its line.
  void erase();

 private:
  using Clock = std::chrono::steady_clock;
  const std::string what_;
  const bool is_terminal_;
  std::mutex mutex_;  // for the next two
  bool drawn_ = false;
  Clock::time_point next_;
};

}  // namespace bonsai::cli
