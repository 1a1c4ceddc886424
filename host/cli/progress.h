// A progress bar on stderr, for what takes longer than a moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace bonsai::cli {

// Shows nothing where stderr is no terminal, or while less than half a second has passed. Erased when destroyed.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();
  ProgressBar(const ProgressBar &) = delete;
  ProgressBar &operator=(const ProgressBar &) = delete;

  // Cheap: draws ten times a second at most.
  void update(uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool is_terminal_;
  bool drawn_ = false;
  Clock::time_point next_;
};

}  // namespace bonsai::cli
