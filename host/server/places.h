// How many texts are under way at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace bonsai::server {

class Places {
 public:
  explicit Places(uint32_t n) : n_(n) {}

  // Given back when the last holder goes. Throws ApiError where there are not so many. Any thread.
  std::shared_ptr<void> take(uint32_t n);
  uint32_t n_taken() const { return *taken_; }

 private:
  const uint32_t n_;
  const std::shared_ptr<std::atomic<uint32_t>> taken_ = std::make_shared<std::atomic<uint32_t>>(0);
};

}  // namespace bonsai::server
