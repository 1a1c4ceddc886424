#include "core/base/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

namespace bonsai {

void prepare_standard_streams() {
  struct Stream {
    int fd, flags;
  };
  constexpr Stream kStreams[] = {{STDIN_FILENO, O_WRONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}};
  // open() takes the lowest number that is free, and those below are taken by then.
  for (const auto &[fd, flags] : kStreams)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", flags);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

void wait_until_ready(int fd, short events) noexcept {
  pollfd waiting{fd, events, 0};
  ::poll(&waiting, 1, -1);
}

void write_to_stderr(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      wait_until_ready(STDERR_FILENO, POLLOUT);
      continue;
    }
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void vprint_to_stderr(fmt::string_view format, fmt::format_args args) noexcept {
  try {
    fmt::memory_buffer text;
    fmt::vformat_to(std::back_inserter(text), format, args);
    write_to_stderr({text.data(), text.size()});
  } catch (...) {  // no memory for a long text: it is dropped like others
  }
}

}  // namespace bonsai
