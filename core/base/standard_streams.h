// Standard input, output and error as a program may find them: closed, full, or with nobody at the other end.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace bonsai {

// What a program does first, before it opens a file or starts a thread. A standard stream that is closed (2>&-) becomes
// /dev/null: else the next file that is opened, a session's say, would get its number, and whatever is said with it. It
// is opened such that using stdin or stdout is an error as before. And what cannot be written, because the reader of a
// pipe has gone or a file may not grow further, becomes an error of that write instead of a signal that ends
// everything.
void prepare_standard_streams();

// Of a file that others let return EAGAIN: waits until something (POLLIN, POLLOUT) can go on, or never will.
void wait_until_ready(int fd, short events) noexcept;

// Writes to stderr. What cannot be written is dropped: there is nobody left to tell, and no reason to do less than what
// was asked for.
void write_to_stderr(std::string_view text) noexcept;

// The same with fmt::print's arguments, which throws where it cannot write.
void vprint_to_stderr(fmt::string_view format, fmt::format_args args) noexcept;
template <class... Args>
void print_to_stderr(fmt::format_string<Args...> format, const Args &...args) noexcept {
  vprint_to_stderr(format, fmt::make_format_args(args...));
}

}  // namespace bonsai
