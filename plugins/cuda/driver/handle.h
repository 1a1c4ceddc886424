// Ownership of the driver's handles.
#pragma once

#include <utility>

#include "plugins/cuda/driver/context.h"

namespace bonsai::cuda {

// Owns a stream, an event, a graph ..., which `destroy` ends: Handle<CUstream, &DriverFunctions::cuStreamDestroy_v2>.
template <class T, auto destroy>
class Handle {
 public:
  explicit Handle(const Context &context, T value = nullptr) : context_(&context), value_(value) {}
  ~Handle() { reset(); }
  Handle(Handle &&other) noexcept : context_(other.context_), value_(std::exchange(other.value_, nullptr)) {}
  Handle &operator=(Handle &&other) noexcept {
    if (this == &other) return *this;
    reset();
    context_ = other.context_;
    value_ = std::exchange(other.value_, nullptr);
    return *this;
  }

  const Context &context() const { return *context_; }
  const Driver &driver() const { return context_->driver(); }
  T get() const { return value_; }
  // Where a creating call writes it. Owns nothing yet.
  T *out() { return &value_; }

 private:
  void reset() noexcept {
    if (!value_) return;
    context_->release([this](const Driver &driver) { (driver.*destroy)(value_); });
    value_ = nullptr;
  }

  const Context *context_;
  T value_;
};

}  // namespace bonsai::cuda
