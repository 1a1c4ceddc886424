#include "tools/plugin-check/refusal.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "core/base/utf8.h"
#include "tools/plugin-check/call_trace.h"

namespace bonsai::check {
namespace {

constexpr unsigned char kMark = 'x';

// An error between marks, so that what is written beyond it shows.
struct GuardedError {
  explicit GuardedError(uint32_t struct_size) {
    std::memset(&error, kMark, sizeof error);
    after.fill(kMark);
    error.struct_size = struct_size;
  }
  bool is_kept_from(size_t offset) const {
    const auto *bytes = reinterpret_cast<const unsigned char *>(&error);
    const auto is_mark = [](unsigned char byte) { return byte == kMark; };
    return std::all_of(bytes + offset, bytes + sizeof error, is_mark) &&
           std::all_of(after.begin(), after.end(), is_mark);
  }

  bonsai_error error;
  std::array<unsigned char, 16> after;
};

const char *name_of(Expected expected) {
  constexpr const char *kNames[] = {"BONSAI_INVALID_ARGUMENT", "BONSAI_UNSUPPORTED",
                                    "BONSAI_INVALID_ARGUMENT or BONSAI_UNSUPPORTED"};
  return kNames[static_cast<size_t>(expected)];
}

void expect_status(const std::string &what, Expected expected, bonsai_status status) {
  const bool invalid = status == BONSAI_INVALID_ARGUMENT && expected != Expected::kUnsupported;
  const bool unsupported = status == BONSAI_UNSUPPORTED && expected != Expected::kInvalid;
  expect(invalid || unsupported, "{}: status {}, expected {}", what, status_name(status), name_of(expected));
}

void expect_message(const std::string &what, const bonsai_error &error) {
  const std::string_view buffer(error.message, sizeof error.message);
  const size_t length = buffer.find('\0');
  expect(length != buffer.npos, "{}: the message is not terminated", what);
  const std::string_view message = buffer.substr(0, length);
  expect(!message.empty(), "{}: the message is empty", what);
  expect(message.find_first_of("\r\n") == message.npos, "{}: the message has more than one line: {}", what,
         quoted(message));
  // Its options' keys may begin with the name: "cpu.threads".
  expect(!message.starts_with(fmt::format("{}:", traced_name())),
         "{}: the message begins with the backend's name, which the host puts there: {}", what, quoted(message));
  expect(find_invalid_utf8(message) == message.npos, "{}: the message is not UTF-8: {}", what, quoted(message));
}

}  // namespace

void expect_refused(const std::string &what, Expected expected,
                    const std::function<bonsai_status(bonsai_error *)> &call) {
  const About about(what);
  GuardedError full(sizeof(bonsai_error));
  const bonsai_status status = call(&full.error);
  expect_status(what, expected, status);
  expect(full.error.code == status, "{}: the error has code {}, but the call returned {}", what, full.error.code,
         status);
  expect_message(what, full.error);
  expect(full.is_kept_from(sizeof full.error), "{}: bytes behind the error were written", what);

  GuardedError without_message(offsetof(bonsai_error, message));
  expect_status(what, expected, call(&without_message.error));
  expect(without_message.is_kept_from(offsetof(bonsai_error, message)),
         "{}: the message was written although the error's struct_size does not cover it", what);
  expect_status(what + " without an error to fill", expected, call(nullptr));
}

}  // namespace bonsai::check
