// Text and errors that a backend hands over, made safe to store and to print: a backend may be wrong about its lengths,
// and its words may hold anything.
#pragma once

#include <bonsai/backend.h>

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

#include "core/base/floating_point_environment.h"
#include "host/backend/status.h"

namespace bonsai::host {

inline constexpr size_t kMaxTextBytes = 256;  // of names, versions and the like

// At most `max_bytes` of a NUL-terminated string, on one line: control characters and ill-formed UTF-8 become '?', line
// breaks and tabs become spaces. NULL gives an empty string.
std::string plugin_text(const char *text, size_t max_bytes);

// "out of memory" for BONSAI_OUT_OF_MEMORY, and so on; an unknown value says that it is one.
std::string status_name(bonsai_status status);

// The last argument of a call into a backend, and what came back in it.
class CallError {
 public:
  CallError();
  bonsai_error *out() { return &raw_; }
  // The status of a call that is given out(). An exception, which should not come out of a backend, is BONSAI_INTERNAL;
  // another floating-point environment, which should not either, ends with the call.
  template <class Call>
  bonsai_status of(const Call &call) {
    try {
      const KeptFloatingPoint environment;
      return call();
    } catch (const std::exception &exception) {
      thrown_ = std::string(": ") + exception.what();
    } catch (...) {
      thrown_ = " of unknown type";
    }
    return BONSAI_INTERNAL;
  }
  // What the backend wrote, even after BONSAI_OK (device_count says there why it found no device).
  std::string message() const;
  // "cpu: the message (status)", or "cpu: FUNCTION failed without a message (status)", or "cpu: FUNCTION threw an
  // exception: its words". A status that the ABI does not define becomes BONSAI_INTERNAL.
  BackendError failure(std::string_view backend, std::string_view function, bonsai_status status) const;

 private:
  bonsai_error raw_{};
  std::string thrown_;  // empty: nothing was
};

// A call without a status: what it throws, against the rules, has nowhere to go. Otherwise as CallError::of.
template <class Call>
void call_quietly(const Call &call) noexcept {
  try {
    const KeptFloatingPoint environment;
    call();
  } catch (...) {
  }
}

}  // namespace bonsai::host
