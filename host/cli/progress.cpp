#include "host/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace bonsai::cli {
namespace {

using namespace std::chrono_literals;
constexpr uint64_t kWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)), is_terminal_(::isatty(STDERR_FILENO) == 1), next_(Clock::now() + 500ms) {}

ProgressBar::~ProgressBar() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressBar::update(uint64_t done, uint64_t total) {
  if (!is_terminal_ || total == 0) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + 100ms;
  drawn_ = true;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto filled = static_cast<uint64_t>(share * kWidth);
  fmt::print(stderr, "\r{} [{:#>{}}{:.>{}}] {:3.0f} %", what_, "", filled, "", kWidth - filled, 100 * share);
  std::fflush(stderr);
}

}  // namespace bonsai::cli
