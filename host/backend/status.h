// What went wrong in a backend: the status decides what the host does about it, the message is for a person.
#pragma once

#include <bonsai/backend.h>

#include <string>
#include <tl/expected.hpp>

namespace bonsai::host {

struct BackendError {
  bonsai_status status = BONSAI_INTERNAL;
  std::string message;  // one line
};

template <class T>
using BackendResult = tl::expected<T, BackendError>;

}  // namespace bonsai::host
