// Every other function of the driver's that Bonsai looks for, so that none is missing. None is called. Weak: driver.cpp
// has the better ones.
#include "plugins/cuda/driver/functions.h"

#define STUB_DEFINE(name)                                                                   \
  extern "C" __attribute__((weak, visibility("default"))) int stub_##name() __asm__(#name); \
  int stub_##name() { return CUDA_ERROR_NOT_SUPPORTED; }

BONSAI_CUDA_DRIVER_FUNCTIONS(STUB_DEFINE)
STUB_DEFINE(cuEventElapsedTime)
