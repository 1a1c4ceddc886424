// Errors in core: a value or one line that says what is wrong and what was expected.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace bonsai {

// One line for a person: no trailing newline or full stop, names the thing (file, field, offset, option) and the
// expectation.
struct Error {
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

// Makes the error side of a Result: `return fail("{}: expected {} bytes, found {}", name, expected, found);`
template <class... Args>
tl::unexpected<Error> fail(fmt::format_string<Args...> format, Args &&...args) {
  return tl::unexpected<Error>(Error{fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace bonsai
