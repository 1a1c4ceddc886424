// Linked into a test program, this makes the fake driver and the fake NVRTC the ones that the CUDA plugin finds: a
// library that is loaded already is found by its name. Whatever is misused or left alive fails the program in the end,
// and no kernels are kept: the user's cache is none of the tests' business.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

void load(const char *path) {
  if (dlopen(path, RTLD_NOW | RTLD_LOCAL)) return;
  std::fprintf(stderr, "%s\n", dlerror());
  std::abort();
}

// Before main, and before GoogleTest asks for parameters of tests.
__attribute__((constructor)) void prepare() {
  setenv("BONSAI_FAKE_CUDA_STRICT", "1", 1);
  setenv("XDG_CACHE_HOME", "", 1);
  unsetenv("HOME");
#ifdef BONSAI_CUDA_PLUGIN
  setenv("BONSAI_CONFORMANCE_PLUGIN", BONSAI_CUDA_PLUGIN, 1);
#endif
#ifdef BONSAI_TEST_FILTER
  setenv("GTEST_FILTER", BONSAI_TEST_FILTER, 0);  // also where CTest asks which tests there are
#endif
  load(BONSAI_FAKE_CUDA);
  load(BONSAI_FAKE_NVRTC);
}

}  // namespace
