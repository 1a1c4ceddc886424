// SHA-256 (FIPS 180-4): names cache entries and proves them whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bonsai::cuda {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void add(std::string_view bytes);
  // The text with its length before it, so that the fields "ab" and "c" differ from "a" and "bc".
  void add_field(std::string_view text);
  // Ends the message.
  Digest finish();

 private:
  void add_block(const uint8_t *block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_ = {};  // the first total_bytes_ % 64
  uint64_t total_bytes_ = 0;
};

// Of one text.
Digest sha256(std::string_view text);

// 64 digits, lower case.
std::string hex(const Digest &digest);

}  // namespace bonsai::cuda
