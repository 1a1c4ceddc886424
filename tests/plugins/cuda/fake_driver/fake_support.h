// What tests over the fake driver share: its functions, found in the library that is loaded.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "tests/plugins/cuda/fake_driver/fake_cuda.h"

namespace bonsai::fake {

// fake_cuda.h's functions, by their names less "bonsai_fake_cuda_".
struct Control {
  decltype(&bonsai_fake_cuda_alive) alive_;
  decltype(&bonsai_fake_cuda_misuse) misuse_;
  decltype(&bonsai_fake_cuda_fail_call) fail_call;
  decltype(&bonsai_fake_cuda_fail_work) fail_work;
  decltype(&bonsai_fake_cuda_calls) calls;
  decltype(&bonsai_fake_cuda_work) work;
  decltype(&bonsai_fake_cuda_kernels) kernels;
  decltype(&bonsai_fake_cuda_functions) functions;
  decltype(&bonsai_fake_cuda_set_order) set_order;
  decltype(&bonsai_fake_cuda_run_kernels) run_kernels;
  decltype(&bonsai_fake_cuda_reset) reset;

  bonsai_fake_cuda_alive_counts alive() const {
    bonsai_fake_cuda_alive_counts counts;
    alive_(&counts);
    return counts;
  }
  std::string misuse() const { return misuse_(); }
};

// Loads the library if it is not loaded yet.
inline const Control &control() {
  static const Control found = [] {
    void *library = dlopen(BONSAI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    Control control;
    const auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function) throw std::runtime_error(name);
    };
    find(control.alive_, "bonsai_fake_cuda_alive");
    find(control.misuse_, "bonsai_fake_cuda_misuse");
    find(control.fail_call, "bonsai_fake_cuda_fail_call");
    find(control.fail_work, "bonsai_fake_cuda_fail_work");
    find(control.calls, "bonsai_fake_cuda_calls");
    find(control.work, "bonsai_fake_cuda_work");
    find(control.kernels, "bonsai_fake_cuda_kernels");
    find(control.functions, "bonsai_fake_cuda_functions");
    find(control.set_order, "bonsai_fake_cuda_set_order");
    find(control.run_kernels, "bonsai_fake_cuda_run_kernels");
    find(control.reset, "bonsai_fake_cuda_reset");
    return control;
  }();
  return found;
}

inline void expect_nothing_alive() {
  const bonsai_fake_cuda_alive_counts alive = control().alive();
  EXPECT_EQ(alive.contexts, 0u);
  EXPECT_EQ(alive.pushed, 0u);
  EXPECT_EQ(alive.device_allocations, 0u);
  EXPECT_EQ(alive.device_bytes, 0u);
  EXPECT_EQ(alive.pinned_allocations, 0u);
  EXPECT_EQ(alive.streams, 0u);
  EXPECT_EQ(alive.events, 0u);
  EXPECT_EQ(alive.modules, 0u);
  EXPECT_EQ(alive.graphs, 0u);
  EXPECT_EQ(alive.graph_execs, 0u);
  EXPECT_EQ(alive.captures, 0u);
}

}  // namespace bonsai::fake
