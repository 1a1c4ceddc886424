// The token loop allocates nothing, sessions allocate what session_memory says, and nothing leaks. This program
// replaces malloc and its kin and mmap for itself and every library that it loads, and counts.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "tests/plugins/cpu/backend_support.h"

namespace {

std::atomic<uint64_t> allocations{0};  // calls that ask for memory, mmap included
std::atomic<int64_t> live_blocks{0};   // allocated and not yet freed

void *counted(void *memory) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (memory) live_blocks.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

}  // namespace

#define BONSAI_REPLACES extern "C" __attribute__((visibility("default")))

extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);
}

BONSAI_REPLACES void *malloc(size_t size) { return counted(__libc_malloc(size)); }
BONSAI_REPLACES void *calloc(size_t n, size_t size) { return counted(__libc_calloc(n, size)); }
BONSAI_REPLACES void *memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }
BONSAI_REPLACES void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
BONSAI_REPLACES int posix_memalign(void **memory, size_t alignment, size_t size) {
  *memory = memalign(alignment, size);
  return *memory ? 0 : ENOMEM;
}
BONSAI_REPLACES void free(void *memory) {
  if (memory) live_blocks.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(memory);
}
BONSAI_REPLACES void *realloc(void *memory, size_t size) {
  if (memory) live_blocks.fetch_sub(1, std::memory_order_relaxed);
  return counted(__libc_realloc(memory, size));
}
BONSAI_REPLACES void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const long result = syscall(SYS_mmap, address, length, protection, flags, file, offset);
  return reinterpret_cast<void *>(result);
}

namespace bonsai::test {
namespace {

TEST(Allocation, TheCountersSeeThePluginsAllocations) {
  const uint64_t before = allocations;
  OpenDevice device(kPlugin);
  EXPECT_GT(allocations, before + 1);
}

// Decode steps and prompts, all outputs.
class TokenLoop {
 public:
  explicit TokenLoop(const char *threads) : device_(kPlugin, {{"cpu.threads", threads}}) {
    prompt_.block_table = step_.block_table = {blocks_in_order(10)};
    for (uint32_t i = 0; i < 100; ++i) prompt_.add(static_cast<int32_t>(i), i);
    step_.add(3, 100);
    outputs_.logits(0);
    outputs_.argmax(0);
    outputs_.top(0, 10, {1, 2, 3});
    prompt_view_ = prompt_.view();
    step_view_ = step_.view();
  }

  // Allocations during 20 batches.
  uint64_t run() {
    const uint64_t before = allocations;
    uint64_t ticket = 0;
    for (int i = 0; i < 20; ++i) {
      const bonsai_batch &view = i % 10 == 0 ? prompt_view_ : step_view_;
      session_.api.forward_submit(session_.handle, &view, outputs_.data(), outputs_.size(), &ticket, nullptr);
      EXPECT_EQ(session_.api.forward_wait(session_.handle, ticket, nullptr), BONSAI_OK);
    }
    return allocations - before;
  }

 private:
  LoadedModel loaded_{TinyModel{}};
  OpenDevice device_;
  UploadedModel uploaded_{device_, loaded_.model};
  OpenSession session_{uploaded_, small_config()};
  TestBatch prompt_, step_;
  TestOutputs outputs_{kTinyTokens, 128};
  bonsai_batch prompt_view_, step_view_;
};

TEST(Allocation, TheTokenLoopAllocatesNothing) {
  TokenLoop loop("1");
  EXPECT_EQ(loop.run(), 0u);
}

// oneTBB makes its threads and their pools of tasks when they are first needed; then it allocates nothing either.
TEST(Allocation, TheTokenLoopOnManyThreadsComesToAllocateNothing) {
  for (const char *threads : {"2", "5"}) {
    TokenLoop loop(threads);
    int quiet_rounds = 0;
    for (int round = 0; round < 20; ++round) quiet_rounds += loop.run() == 0;
    EXPECT_GE(quiet_rounds, 10) << threads << " threads";
  }
}

TEST(Allocation, RepeatedOpenAndCloseLeaksNothing) {
  const LoadedModel loaded({});
  const auto cycle = [&] {
    OpenDevice device(kPlugin, {{"cpu.threads", "2"}});
    UploadedModel uploaded(device, loaded.model);
    OpenSession session(uploaded, small_config());
    session.logits({1, 2, 3}, 0, {0});
  };
  for (int i = 0; i < 5; ++i) cycle();  // libraries fill their own pools first
  const int64_t before = live_blocks;
  constexpr int kCycles = 50;
  for (int i = 0; i < kCycles; ++i) cycle();
  EXPECT_LT(live_blocks - before, kCycles);  // less than one block a cycle: no cycle leaks
}

}  // namespace
}  // namespace bonsai::test
