// A device's primary context, and making it the calling thread's.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "plugins/cuda/driver/driver.h"

namespace bonsai::cuda {

// Retains the primary context, which all users of a device in the process share, and releases it in the end. Everything
// that is made in it keeps a pointer to this object: it neither moves nor dies before them.
class Context {
 public:
  Context(std::shared_ptr<const Driver> driver, CUdevice device);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  const Driver &driver() const { return *driver_; }
  CUdevice device() const { return device_; }
  CUcontext handle() const { return handle_; }

  struct Memory {
    uint64_t free_bytes;
    uint64_t total_bytes;
  };
  Memory memory() const;

  // Runs `release` with the context current and forgets how its calls end: for destructors, which also run when the
  // device is lost and every call fails.
  template <class Release>
  void release(Release &&release) const noexcept {
    const bool pushed = driver_->cuCtxPushCurrent_v2(handle_) == CUDA_SUCCESS;
    std::forward<Release>(release)(*driver_);
    CUcontext popped;
    if (pushed) driver_->cuCtxPopCurrent_v2(&popped);
  }

 private:
  std::shared_ptr<const Driver> driver_;
  CUdevice device_;
  CUcontext handle_ = nullptr;
};

// Makes a context current on this thread while it lives, and then the one that was before.
class CurrentContext {
 public:
  explicit CurrentContext(const Context &context);
  ~CurrentContext();
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;

 private:
  const Context &context_;
};

}  // namespace bonsai::cuda
