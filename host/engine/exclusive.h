// Calls that hand out control in the middle: what their callbacks may not do to the same object.
#pragma once

#include <bonsai/engine.h>

#include <memory>
#include <string>
#include <utility>

namespace bonsai::host {

// An object's lock against its own callbacks. They run in the thread of the call that they belong to, so this is no
// lock between threads.
template <class State>
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

  // Of a call, declared before anything that uses the object: what was released meanwhile is destroyed at its end.
  class Hold {
   public:
    // Throws as require_idle() does.
    explicit Hold(Exclusive &exclusive) : exclusive_(exclusive) {
      exclusive_.require_idle();
      exclusive_.is_held_ = true;
    }
    ~Hold() {
      exclusive_.is_held_ = false;
      const std::unique_ptr<State> last = std::move(exclusive_.released_);
    }
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;

   private:
    Exclusive &exclusive_;
  };

  // Destroys `state`, or has the call do so that it is in the middle of.
  static void release(std::unique_ptr<State> state) {
    if (!state || !state->exclusive().is_held_) return;
    Exclusive &exclusive = state->exclusive();
    exclusive.released_ = std::move(state);
  }

 private:
  const char *what_;
  bool is_held_ = false;
  std::unique_ptr<State> released_;  // the object itself, which has no owner any more
};

}  // namespace bonsai::host
