// How many texts are under way, or wait for something, at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace bonsai::server {

class Places {
 public:
  // `name` is what errors call them: "places".
  Places(uint32_t n, std::string name) : n_(n), name_(std::move(name)) {}

  // Given back when the last holder goes. Throws ApiError where there are not so many. Any thread.
  std::shared_ptr<void> take(uint32_t n);
  uint32_t n_taken() const { return *taken_; }
  uint32_t n() const { return n_; }

 private:
  const uint32_t n_;
  const std::string name_;
  const std::shared_ptr<std::atomic<uint32_t>> taken_ = std::make_shared<std::atomic<uint32_t>>(0);
};

}  // namespace bonsai::server
