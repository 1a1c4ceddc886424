#include "tests/plugins/cuda/emulator/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace bonsai::emulation {
namespace {

// Kernels keep little on the stack; sanitizers pad it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = 256 * 1024;
#else
constexpr size_t kStackBytes = 64 * 1024;
#endif

// Memory that belongs to somebody else.
struct Borrowed {
  void deallocate(boost::context::stack_context &) noexcept {}
};

}  // namespace

struct Fiber::Stack {
  Stack() {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    bytes = kStackBytes + page;
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory, page, PROT_NONE);
    bottom = static_cast<char *>(memory) + page;
    // Stacks that all begin at the same place of a page would compete for the same few cache lines.
    top = bottom + kStackBytes - reinterpret_cast<uintptr_t>(memory) / page % 61 * 64;
  }
  ~Stack() { munmap(memory, bytes); }
  Stack(const Stack &) = delete;
  Stack &operator=(const Stack &) = delete;

  void *memory;
  size_t bytes;
  char *bottom, *top;
};

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(std::make_unique<Stack>()) {
  boost::context::stack_context context;
  context.sp = stack_->top;
  context.size = static_cast<size_t>(stack_->top - stack_->bottom);
  self_ = boost::context::fiber(std::allocator_arg, boost::context::preallocated(context.sp, context.size, context),
                                Borrowed(), [this](boost::context::fiber &&caller) { return run(std::move(caller)); });
#if defined(__SANITIZE_THREAD__)
  own_tsan_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  ending_ = true;
  resume();
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(own_tsan_);
#endif
}

void Fiber::resume() {
#if defined(__SANITIZE_THREAD__)
  caller_tsan_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(own_tsan_, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
  void *fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_->bottom, kStackBytes);
#endif
  self_ = std::move(self_).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
#if defined(__SANITIZE_THREAD__)
  if (ending_) __tsan_switch_to_fiber(caller_tsan_, 0);
#endif
}

// Tells the sanitizers that the caller's stack comes next. Inlined: ThreadSanitizer counts calls on either side.
[[gnu::always_inline]] inline void Fiber::leave([[maybe_unused]] bool forever) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(forever ? nullptr : &own_fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  if (!forever) __tsan_switch_to_fiber(caller_tsan_, 0);  // for ever: resume does
#endif
}

void Fiber::suspend() {
  leave(false);
  caller_ = std::move(caller_).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own_fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

boost::context::fiber Fiber::run(boost::context::fiber &&caller) {
  caller_ = std::move(caller);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &caller_stack_, &caller_stack_bytes_);
#endif
  while (!ending_) {
    body_();
    suspend();
  }
  leave(true);
  return std::move(caller_);
}

}  // namespace bonsai::emulation
