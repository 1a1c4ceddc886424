// Threads of execution that hand the processor to each other by calling, on Boost.Context. A Fiber runs its body each
// time it is started, on a stack of its own with a guard page beneath.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>
#include <memory>

namespace bonsai::emulation {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  // From outside: runs the fiber until it calls suspend or its body ends. After the end, it begins anew.
  void resume();
  // From inside: goes back to who called resume.
  void suspend();

 private:
  struct Stack;
  boost::context::fiber run(boost::context::fiber &&caller);
  void leave(bool forever);

  std::function<void()> body_;
  std::unique_ptr<Stack> stack_;
  boost::context::fiber self_, caller_;
  bool ending_ = false;

  // What sanitizers want to know of a switch.
  void *own_fake_stack_ = nullptr;
  const void *caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
  void *own_tsan_ = nullptr, *caller_tsan_ = nullptr;
};

}  // namespace bonsai::emulation
