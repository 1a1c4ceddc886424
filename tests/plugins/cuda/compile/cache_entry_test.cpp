// An entry that is not whole, not undamaged, or not the one that was asked for is never taken for one.
#include "plugins/cuda/compile/cache_entry.h"

#include <gtest/gtest.h>

namespace bonsai::cuda {
namespace {

CacheKey key_of(uint8_t first) { return {.digest = {first, 2, 3}, .nvrtc_version = 13000}; }

const Binary kBinary = {.ptx = "// the text of a kernel",
                        .cubin = std::string("\x7f"
                                             "ELF\0code",
                                             9)};

TEST(CacheEntries, ComeBackAsTheyWere) {
  const auto decoded = decode_entry(encode_entry(key_of(1), kBinary), key_of(1));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->ptx, kBinary.ptx);
  EXPECT_EQ(decoded->cubin, kBinary.cubin);
}

TEST(CacheEntries, MayLackACubin) {
  const auto decoded = decode_entry(encode_entry(key_of(1), {.ptx = "text"}), key_of(1));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->cubin, "");
}

TEST(CacheEntries, OfAnotherKeyAreRefused) { EXPECT_FALSE(decode_entry(encode_entry(key_of(1), kBinary), key_of(2))); }

TEST(CacheEntries, OfAnotherCompilerAreRefused) {
  CacheKey key = key_of(1);
  key.nvrtc_version = 12040;
  EXPECT_FALSE(decode_entry(encode_entry(key_of(1), kBinary), key));
}

TEST(CacheEntries, CutOffAnywhereAreRefused) {
  const std::string entry = encode_entry(key_of(1), kBinary);
  for (size_t bytes = 0; bytes < entry.size(); ++bytes) {
    EXPECT_FALSE(decode_entry(entry.substr(0, bytes), key_of(1))) << bytes;
  }
}

TEST(CacheEntries, WithMoreBehindThemAreRefused) {
  EXPECT_FALSE(decode_entry(encode_entry(key_of(1), kBinary) + '\0', key_of(1)));
}

TEST(CacheEntries, WithAnyBitTurnedAreRefused) {
  const std::string entry = encode_entry(key_of(1), kBinary);
  for (size_t bit = 0; bit < 8 * entry.size(); ++bit) {
    std::string damaged = entry;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(decode_entry(damaged, key_of(1))) << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

// Sizes that would make their sum wrap round to the right one.
TEST(CacheEntries, WithSizesThatWrapRoundAreRefused) {
  std::string entry = encode_entry(key_of(1), kBinary);
  constexpr size_t kPtxBytesAt = 8 + 32 + 8;
  for (size_t i = 0; i < 8; ++i) entry[kPtxBytesAt + i] = '\xff';
  EXPECT_FALSE(decode_entry(entry, key_of(1)));
}

}  // namespace
}  // namespace bonsai::cuda
