#include "tests/plugins/cuda/emulator/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>

namespace bonsai::emulation {
namespace {

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

GuardedMemory::GuardedMemory(size_t bytes, size_t alignment) : bytes_(bytes) {
  const size_t page = page_bytes();
  const size_t aligned = round_up(bytes, alignment);
  pages_bytes_ = round_up(aligned, page) + page;
  pages_ = mmap(nullptr, pages_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages_ == MAP_FAILED) throw std::bad_alloc();
  std::byte *guard = static_cast<std::byte *>(pages_) + pages_bytes_ - page;
  mprotect(guard, page, PROT_NONE);
  data_ = guard - aligned;
  slack_ = aligned - bytes;
}

GuardedMemory::~GuardedMemory() {
  if (pages_) munmap(pages_, pages_bytes_);
}

GuardedMemory::GuardedMemory(GuardedMemory &&other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)),
      pages_bytes_(other.pages_bytes_),
      data_(other.data_),
      bytes_(other.bytes_),
      slack_(other.slack_) {}

void GuardedMemory::set_accessible(bool is_accessible) {
  mprotect(pages_, pages_bytes_ - page_bytes(), is_accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void GuardedMemory::give_pages_back() {
  set_accessible(false);
  madvise(pages_, pages_bytes_, MADV_DONTNEED);
}

}  // namespace bonsai::emulation
