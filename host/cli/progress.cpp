#include "host/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/standard_streams.h"
#include "host/cli/terminal_abilities.h"

namespace bonsai::cli {
namespace {

using namespace std::chrono_literals;
constexpr uint64_t kWidth = 30;

// Of the terminal: a longer line would go on in the next one, and stay there.
size_t columns() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

// The first `n` characters, if each takes one column.
std::string_view cut(std::string_view line, size_t n) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };  // else it goes on
  size_t n_begun = 0;
  for (size_t i = 0; i < line.size(); ++i)
    if (begins(line[i]) && n_begun++ == n) return line.substr(0, i);
  return line;
}

}  // namespace

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)), is_terminal_(obeys_escapes(STDERR_FILENO)), next_(Clock::now() + 500ms) {}

ProgressBar::~ProgressBar() { erase(); }

void ProgressBar::erase() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(drawn_, false)) write_to_stderr("\r\x1b[K");
}

void ProgressBar::update(uint64_t done, uint64_t total) {
  if (!is_terminal_ || total == 0) return;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + 100ms;
  drawn_ = true;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto filled = static_cast<uint64_t>(share * kWidth);
  print_to_stderr("\r{} [{:#>{}}{:.>{}}] {:3.0f} %\x1b[K", what_, "", filled, "", kWidth - filled, 100 * share);
}

void ProgressBar::note(std::string_view line) {
  if (!is_terminal_) return;
  const std::lock_guard lock(mutex_);
  drawn_ = true;
  print_to_stderr("\r{}\x1b[K", cut(line, columns() - 1));
}

}  // namespace bonsai::cli
