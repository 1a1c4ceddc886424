// A driver's table whose functions count what is alive, and fail when told to: enough to see that owners of handles
// free them, once, and with the context current.
#pragma once

#include <climits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plugins/cuda/driver/driver.h"

namespace bonsai::cuda {

// What the fake functions see and do. There is one at a time, and functions refer to it.
struct FakeDriver {
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver &) = delete;
  FakeDriver &operator=(const FakeDriver &) = delete;

  std::shared_ptr<const Driver> driver;

  CUresult result = CUDA_SUCCESS;  // of every call but those that always succeed
  std::string failing;             // if not empty, `result` is this call's alone
  int failures = INT_MAX;          // that are still to come; then calls succeed
  std::set<uintptr_t> alive;       // handles and memory
  int retained = 0;                // primary contexts
  int pushed = 0;                  // depth of this thread's stack of contexts
  int bad_frees = 0;               // of what was not alive, or without a context
  std::vector<std::string> calls;  // in order
  std::string refused_image;       // modules whose image begins so are refused
  bool is_capturing = false;
  CUlaunchConfig launched = {};
  CUlaunchAttribute launched_attributes[1] = {};
  size_t arguments_bytes = 8;  // of kernels
  std::vector<unsigned char> launched_arguments;
};

}  // namespace bonsai::cuda
