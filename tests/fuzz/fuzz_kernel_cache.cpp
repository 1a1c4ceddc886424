// Promise: bytes are an entry of the CUDA backend's kernel cache exactly if they are what encode_entry would have made.
#include <cstring>
#include <string>

#include "plugins/cuda/compile/cache_entry.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace bonsai::cuda;

CacheKey key() {
  CacheKey key = {.digest = {}, .nvrtc_version = 12040};
  key.digest.fill(0x5a);
  return key;
}

// Ends with the SHA-256 that the rest has, or no mutation would come past it.
std::string mended(std::string bytes) {
  if (bytes.size() < sizeof(Digest)) return bytes;
  Sha256 hash;
  hash.add({bytes.data(), bytes.size() - sizeof(Digest)});
  const Digest digest = hash.finish();
  std::memcpy(bytes.data() + bytes.size() - sizeof(Digest), digest.data(), sizeof(Digest));
  return bytes;
}

void use(const std::string &bytes) {
  if (const auto binary = decode_entry(bytes, key())) require(encode_entry(key(), *binary) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string bytes(reinterpret_cast<const char *>(data), size);
  use(bytes);
  use(mended(bytes));
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const Binary &binary : {Binary{.ptx = ".version 8.4",
                              .cubin = "\x7f"
                                       "ELF cubin"},
                               Binary{.ptx = "p", .cubin = ""}, Binary{.ptx = "", .cubin = ""}}) {
    const std::string entry = encode_entry(key(), binary);
    seeds.emplace_back(entry.begin(), entry.end());
  }
  return seeds;
}
