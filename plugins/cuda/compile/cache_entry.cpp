#include "plugins/cuda/compile/cache_entry.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace bonsai::cuda {
namespace {

constexpr std::array<char, 8> kMagic = {'B', 'O', 'N', 'S', 'A', 'I', 'K', '1'};

struct Header {
  std::array<char, 8> magic = kMagic;
  Digest digest = {};
  uint64_t nvrtc_version = 0;
  uint64_t ptx_bytes = 0;
  uint64_t cubin_bytes = 0;
};
static_assert(std::has_unique_object_representations_v<Header>, "every byte of it is written and hashed");

std::string_view text(const Digest &digest) { return {reinterpret_cast<const char *>(digest.data()), digest.size()}; }

}  // namespace

std::string encode_entry(const CacheKey &key, const Binary &binary) {
  const Header header = {.digest = key.digest,
                         .nvrtc_version = static_cast<uint64_t>(key.nvrtc_version),
                         .ptx_bytes = binary.ptx.size(),
                         .cubin_bytes = binary.cubin.size()};
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
  bytes += binary.ptx;
  bytes += binary.cubin;
  bytes += text(sha256(bytes));
  return bytes;
}

std::optional<Binary> decode_entry(std::string_view bytes, const CacheKey &key) {
  Header header;
  if (bytes.size() < sizeof header + sizeof(Digest)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const uint64_t payload = bytes.size() - sizeof header - sizeof(Digest);
  if (header.magic != kMagic || header.digest != key.digest) return std::nullopt;
  if (header.nvrtc_version != static_cast<uint64_t>(key.nvrtc_version)) return std::nullopt;
  if (header.ptx_bytes > payload || header.cubin_bytes != payload - header.ptx_bytes) return std::nullopt;
  const std::string_view hashed = bytes.substr(0, bytes.size() - sizeof(Digest));
  if (bytes.substr(hashed.size()) != text(sha256(hashed))) return std::nullopt;
  return Binary{.ptx = std::string(bytes.substr(sizeof header, header.ptx_bytes)),
                .cubin = std::string(hashed.substr(sizeof header + header.ptx_bytes))};
}

}  // namespace bonsai::cuda
