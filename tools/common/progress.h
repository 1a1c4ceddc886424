// What every long-running tool shares: a progress bar, and a Ctrl-C that lets the program clean up.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace bonsai::tools {

// A bar on stderr, redrawn at most ten times a second; silent when stderr is not a terminal.
class ProgressBar {
 public:
  // `total` in any unit; a total of 0 draws nothing.
  ProgressBar(std::string label, uint64_t total);
  ~ProgressBar();  // ends the line
  ProgressBar(const ProgressBar &) = delete;
  ProgressBar &operator=(const ProgressBar &) = delete;
  void update(uint64_t done);

 private:
  std::string label_;
  uint64_t total_;
  bool visible_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_draw_;
};

// From now on SIGINT, SIGTERM and SIGHUP only set a flag: the tool looks at it between pieces of work, removes what it
// has half written by leaving its scopes, and exits with interrupted_exit_code(). Signals that the caller ignores stay
// ignored.
void catch_interrupts();
// Takes that back, in a process of one's own: there the signals end it.
void release_interrupts();
bool interrupted();
// 128 + the signal's number, as a shell reports it.
int interrupted_exit_code();

}  // namespace bonsai::tools
