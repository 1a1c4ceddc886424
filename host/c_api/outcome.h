// How calls of the C API end: exceptions become outcomes, and lines for a person.
#pragma once

#include <bonsai/bonsai.h>
#include <bonsai/engine.h>

#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <string_view>

namespace bonsai::c_api {

// As much of a text as an array of `size` holds with a NUL behind it, in whole characters.
void copy_text(std::string_view text, char *to, size_t size);

// A message may name a path, which is any bytes: it is handed out as one line of UTF-8. `failure` may be null.
bonsai_outcome report(bonsai_failure *failure, bonsai_outcome outcome, std::string_view message) noexcept;

bonsai_outcome outcome_of(ErrorKind kind);

// No exception may leave the library.
template <class Call>
bonsai_outcome guarded(bonsai_failure *failure, Call call) noexcept {
  try {
    call();
    return report(failure, BONSAI_SUCCESS, "");
  } catch (const EngineError &error) {
    return report(failure, outcome_of(error.kind()), error.what());
  } catch (const std::bad_alloc &) {
    return report(failure, BONSAI_NO_MEMORY, "out of memory");
  } catch (const std::exception &error) {
    return report(failure, BONSAI_FAILED, error.what());
  } catch (...) {
    return report(failure, BONSAI_FAILED, "unknown error");
  }
}

// A caller's mistake.
[[noreturn]] void refuse(const std::string &message);

}  // namespace bonsai::c_api
