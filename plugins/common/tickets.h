// The order of submits and waits on a session.
#pragma once

#include <cstdint>

#include "plugins/common/failure.h"

namespace bonsai::plugin {

// Tickets count from 1; at most kMaxInFlight are out. Functions throw BONSAI_INVALID_ARGUMENT.
class Tickets {
 public:
  static constexpr uint64_t kMaxInFlight = 2;

  // To be called before a submit does anything.
  void check_room() const {
    if (submitted_ - waited_ == kMaxInFlight) {
      reject("two submits are in flight already: wait for ticket {}", waited_ + 1);
    }
  }
  // The ticket that the next submit gets.
  uint64_t next() const { return submitted_ + 1; }
  uint64_t submit() { return ++submitted_; }

  void wait(uint64_t ticket) {
    if (waited_ == submitted_) reject("ticket {}: no submit is in flight", ticket);
    if (ticket != waited_ + 1) reject("ticket is {}, expected {}, the oldest in flight", ticket, waited_ + 1);
    ++waited_;
  }

 private:
  uint64_t submitted_ = 0, waited_ = 0;
};

}  // namespace bonsai::plugin
