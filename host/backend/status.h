// What went wrong in a backend: the status decides what the host does about it, the message is for a person.
#pragma once

#include <bonsai/backend.h>

#include <string>
#include <tl/expected.hpp>

namespace bonsai::host {

struct BackendError {
  bonsai_status status = BONSAI_INTERNAL;
  std::string message;            // one line
  bool is_callers_fault = false;  // the host's own checks found it, before any backend was asked
};

template <class T>
using BackendResult = tl::expected<T, BackendError>;

}  // namespace bonsai::host
