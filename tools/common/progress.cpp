#include "tools/common/progress.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/base/standard_streams.h"

namespace bonsai::tools {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kBarWidth = 30;

// A signal handler can reach nothing but a global of this type.
volatile std::sig_atomic_t received_signal = 0;

extern "C" void note_signal(int signal) { received_signal = signal; }

void handle_interrupts(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction current {};
    sigaction(signal, nullptr, &current);
    if (current.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);  // nohup's and a background job's choice stays
  }
}

}  // namespace

ProgressBar::ProgressBar(std::string label, uint64_t total)
    : label_(std::move(label)),
      total_(total),
      visible_(total > 0 && isatty(STDERR_FILENO)),
      next_draw_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (drawn_) write_to_stderr("\n");
}

void ProgressBar::update(uint64_t done) {
  const auto now = std::chrono::steady_clock::now();
  if (!visible_ || (now < next_draw_ && done < total_)) return;
  next_draw_ = now + kRedraw;
  drawn_ = true;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const int filled = static_cast<int>(share * kBarWidth);
  print_to_stderr("\r{} [{:#<{}}{:.<{}}] {:3.0f} %", label_, "", filled, "", kBarWidth - filled, share * 100);
}

void catch_interrupts() { handle_interrupts(note_signal); }

void release_interrupts() { handle_interrupts(SIG_DFL); }

bool interrupted() { return received_signal != 0; }

int interrupted_exit_code() { return 128 + received_signal; }

}  // namespace bonsai::tools
