#include "host/cli/output.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/standard_streams.h"
#include "host/cli/command.h"

namespace bonsai::cli {
namespace {

// Whatever is asked of a terminal that was closed fails with EIO, as what is written does.
bool is_closed_terminal(int fd) { return !::isatty(fd) && errno == EIO; }

}  // namespace

void Output::write(std::string_view text) {
  if (!text.empty()) is_in_line_ = !text.ends_with('\n');
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
      continue;
    }
    const int error = errno;
    if (error == EPIPE || (error == EIO && is_closed_terminal(STDOUT_FILENO))) throw OutputClosed();
    if (error == EAGAIN)
      wait_until_ready(STDOUT_FILENO, POLLOUT);
    else if (error != EINTR)
      throw Failure(fmt::format("cannot write to stdout: {}", std::generic_category().message(error)));
  }
}

void Output::end_line_at_terminal() {
  if (is_in_line_ && ::isatty(STDOUT_FILENO)) write("\n");
}

void Output::write_json(const nlohmann::ordered_json &json) {
  // Names that come from files may not be UTF-8: they are shown with U+FFFD rather than not at all.
  write(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace bonsai::cli
