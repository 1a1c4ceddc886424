#include "plugins/cuda/driver/context.h"

namespace bonsai::cuda {

Context::Context(std::shared_ptr<const Driver> driver, CUdevice device) : driver_(std::move(driver)), device_(device) {
  driver_->check(driver_->cuDevicePrimaryCtxRetain(&handle_, device_), "cuDevicePrimaryCtxRetain");
}

Context::~Context() { driver_->cuDevicePrimaryCtxRelease_v2(device_); }

Context::Memory Context::memory() const {
  const CurrentContext current(*this);
  size_t free_bytes = 0, total_bytes = 0;
  driver_->check(driver_->cuMemGetInfo_v2(&free_bytes, &total_bytes), "cuMemGetInfo_v2");
  return {free_bytes, total_bytes};
}

CurrentContext::CurrentContext(const Context &context) : context_(context) {
  context.driver().check(context.driver().cuCtxPushCurrent_v2(context.handle()), "cuCtxPushCurrent_v2");
}

CurrentContext::~CurrentContext() {
  CUcontext popped;
  context_.driver().cuCtxPopCurrent_v2(&popped);
}

}  // namespace bonsai::cuda
