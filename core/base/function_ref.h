// A parameter for callables, where neither a template nor an allocation is wanted.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace bonsai {

template <class Signature>
class FunctionRef;

// Refers to a callable, which has to outlive it; calling takes one indirect call.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> && std::is_object_v<Callable>)
      FunctionRef(const Callable &callable)  // NOLINT(google-explicit-constructor): a lambda is an argument as it is
      : callable_(std::addressof(callable)), call_([](const void *erased, Args... args) -> Result {
          return (*static_cast<const Callable *>(erased))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  const void *callable_;
  Result (*call_)(const void *, Args...);
};

}  // namespace bonsai
