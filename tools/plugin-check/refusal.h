// How a bad call must fail: the documented status, a readable message, and nothing written that should not be.
#pragma once

#include <bonsai/backend.h>

#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#include "tools/plugin-check/context.h"

namespace bonsai::check {

// The statuses that the header allows for a bad call; some mistakes are also requests that nobody serves.
enum class Expected { kInvalid, kUnsupported, kEither };

// Makes the call with a complete, with a short and without a bonsai_error. Fails the check unless each is refused as
// expected, with one terminated line of text. The call's own outputs are the caller's to look at.
void expect_refused(const std::string &what, Expected expected,
                    const std::function<bonsai_status(bonsai_error *)> &call);

// Something to break about a T, and what is to come of it.
template <class T>
struct Mistake {
  const char *what;
  Expected expected;
  void (*make)(T &);
};

// Bytes of an output argument, to compare with what they are after a refused call.
template <class T>
class Untouched {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Untouched(const T &object) : object_(object) { std::memcpy(before_, &object, sizeof before_); }
  void expect_kept(const std::string &what) const {
    expect(std::memcmp(before_, &object_, sizeof before_) == 0, "{}: an output was written although the call failed",
           what);
  }

 private:
  const T &object_;
  unsigned char before_[sizeof(T)];
};

}  // namespace bonsai::check
