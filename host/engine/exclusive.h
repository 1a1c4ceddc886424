// Calls that hand out control in the middle: what their callbacks may not do to the same object.
#pragma once

#include <bonsai/engine.h>

#include <string>

namespace bonsai::host {

// An object's lock against its own callbacks. They run in the thread of the call that they belong to, so this is no
// lock between threads.
class Exclusive {
 public:
  // `what`: the object, for messages.
  explicit Exclusive(const char *what) : what_(what) {}

  // Throws EngineError while a Hold lives.
  void require_idle() const {
    if (is_held_)
      throw EngineError(ErrorKind::kInvalidArgument,
                        std::string("the ") + what_ + " is in the middle of a call, whose callback may not change it");
  }

  class Hold {
   public:
    // Throws as require_idle() does.
    explicit Hold(Exclusive &exclusive) : exclusive_(exclusive) {
      exclusive_.require_idle();
      exclusive_.is_held_ = true;
    }
    ~Hold() { exclusive_.is_held_ = false; }
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;

   private:
    Exclusive &exclusive_;
  };

 private:
  const char *what_;
  bool is_held_ = false;
};

}  // namespace bonsai::host
