// Memory that ends where an inaccessible page begins, so that whoever reads or writes past it is stopped at once.
#pragma once

#include <cstddef>

namespace bonsai::emulation {

class GuardedMemory {
 public:
  // The address is a multiple of `alignment` (a power of two up to the page), so up to alignment - 1 bytes of slack lie
  // between the end and the page. Throws std::bad_alloc.
  GuardedMemory(size_t bytes, size_t alignment);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory &&other) noexcept;
  GuardedMemory &operator=(GuardedMemory &&) = delete;

  // Whether it may be read and written.
  void set_accessible(bool is_accessible);
  // Makes it inaccessible and keeps nothing but the addresses.
  void give_pages_back();

  std::byte *data() const { return data_; }
  size_t size() const { return bytes_; }
  // From the end to the page.
  size_t slack() const { return slack_; }

 private:
  void *pages_ = nullptr;
  size_t pages_bytes_ = 0;
  std::byte *data_ = nullptr;
  size_t bytes_ = 0, slack_ = 0;
};

}  // namespace bonsai::emulation
