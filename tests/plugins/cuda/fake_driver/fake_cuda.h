// How tests steer the fake NVIDIA driver: functions that the fake libcuda.so.1 exports beside the driver's own. A test
// finds them with dlsym in the library that the plugin has loaded.
//
// The fake keeps the driver's rules and is stricter where a driver only may fail. Whatever breaks one is a misuse: the
// call returns an error as a driver would, and bonsai_fake_cuda_misuse tells what was wrong. Work on streams is done as
// late as can be, when something waits for it, so that missing synchronisation shows. Device memory cannot be touched
// by the host, nor found again once freed. Kernels run on the emulator. Between events, each piece of work takes 1 ms.
//
// The environment describes the machine, read once:
//   BONSAI_FAKE_CUDA_DEVICES         how many (1)
//   BONSAI_FAKE_CUDA_CAPABILITY      of each, 10 major + minor (80)
//   BONSAI_FAKE_CUDA_NAME            of each ("Emulated device")
//   BONSAI_FAKE_CUDA_MEMORY          bytes of each (2 GiB)
//   BONSAI_FAKE_CUDA_MULTIPROCESSORS of each (8)
//   BONSAI_FAKE_CUDA_DRIVER_VERSION  1000 major + 10 minor (13000)
//   BONSAI_FAKE_CUDA_ORDER           of the emulator: forward (the default), backward, or a number that seeds it
//   BONSAI_FAKE_CUDA_EAGER           1: work on streams is done at once instead
//   BONSAI_FAKE_CUDA_STRICT          1: a program that ends with misuse, or with anything alive, ends with status 86
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What has been made and not yet released.
typedef struct bonsai_fake_cuda_alive_counts {
  uint64_t contexts;  // retained
  uint64_t pushed;    // contexts made current and not popped, on all threads
  uint64_t device_allocations;
  uint64_t device_bytes;
  uint64_t pinned_allocations;
  uint64_t streams;
  uint64_t events;
  uint64_t modules;
  uint64_t graphs;
  uint64_t graph_execs;
  uint64_t captures;  // begun and not ended
} bonsai_fake_cuda_alive_counts;

void bonsai_fake_cuda_alive(bonsai_fake_cuda_alive_counts *counts);

// The rules broken since the last reset, a line each; "" if none. Valid until the next call of the fake.
const char *bonsai_fake_cuda_misuse(void);

// The nth call of the driver from now on (1: the next) fails with `result`; 0: none does. Calls that release something
// do so all the same. After errors that a driver cannot recover from, every later call fails alike, until reset.
void bonsai_fake_cuda_fail_call(uint64_t n, int result);

// The nth piece of work (copy or kernel) that runs on a stream fails with `result`, and all calls from then on.
void bonsai_fake_cuda_fail_work(uint64_t n, int result);

// Calls of the driver, work run, and kernels among it, since the last reset or fail_*.
uint64_t bonsai_fake_cuda_calls(void);
uint64_t bonsai_fake_cuda_work(void);
uint64_t bonsai_fake_cuda_kernels(void);
// Kernels of modules that were asked for since then: their code goes to the device with that.
uint64_t bonsai_fake_cuda_functions(void);

// The order of the emulator from here on: 0 forward, 1 backward, from 2 on: random.
void bonsai_fake_cuda_set_order(uint64_t order);

// 0: kernels are checked and counted but leave memory as it is, for tests of what is around them; 1: they run.
void bonsai_fake_cuda_run_kernels(int run);

// Forgets misuse and failures, set or suffered. What is alive stays.
void bonsai_fake_cuda_reset(void);

#ifdef __cplusplus
}
#endif
