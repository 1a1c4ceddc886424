// How a call fails: thrown where the fault is found, turned into a status and a message at the C table.
#pragma once

#include <bonsai/backend.h>
#include <fmt/format.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "core/base/floating_point_environment.h"

namespace bonsai::plugin {

class Failure : public std::exception {
 public:
  Failure(bonsai_status status, std::string message) : status_(status), message_(std::move(message)) {}
  bonsai_status status() const { return status_; }
  const char *what() const noexcept override { return message_.c_str(); }

 private:
  bonsai_status status_;
  std::string message_;
};

// A caller's mistake: throws BONSAI_INVALID_ARGUMENT. One line that names the argument, what it was and what it may be.
template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> format, Args &&...args) {
  throw Failure(BONSAI_INVALID_ARGUMENT, fmt::format(format, std::forward<Args>(args)...));
}

// A legal request that this backend does not serve: throws BONSAI_UNSUPPORTED.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args &&...args) {
  throw Failure(BONSAI_UNSUPPORTED, fmt::format(format, std::forward<Args>(args)...));
}

// Fills the caller's error, as far as its struct_size reaches, and returns `status`. A message that is too long is cut
// between characters.
bonsai_status report(bonsai_error *error, bonsai_status status, const char *message) noexcept;

// Runs the body of a call: in the IEEE default floating-point environment, whatever the caller's is, and with every
// exception turned into a status.
template <class Body>
bonsai_status guarded(bonsai_error *error, Body &&body) noexcept {
  try {
    const DefaultFloatingPoint environment;
    body();
    return BONSAI_OK;
  } catch (const Failure &failure) {
    return report(error, failure.status(), failure.what());
  } catch (const std::bad_alloc &) {
    return report(error, BONSAI_OUT_OF_MEMORY, "host memory: an allocation of a few bytes failed");
  } catch (const std::exception &exception) {
    return report(error, BONSAI_INTERNAL, exception.what());
  } catch (...) {
    return report(error, BONSAI_INTERNAL, "an exception of unknown type");
  }
}

// Throws unless `pointer` is given and its struct_size covers all of its form in version 0.9.
template <class Struct>
Struct &checked(Struct *pointer, const char *name) {
  if (!pointer) reject("{} is NULL", name);
  if (pointer->struct_size < sizeof(Struct)) {
    reject("{}: struct_size is {}, expected at least {}", name, pointer->struct_size, sizeof(Struct));
  }
  return *pointer;
}

template <class T>
void require_pointer(const T *pointer, const char *name) {
  if (!pointer) reject("{} is NULL", name);
}

}  // namespace bonsai::plugin
