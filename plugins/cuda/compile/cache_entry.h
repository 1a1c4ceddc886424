// One entry of the kernel cache as bytes: a header, the PTX, the cubin, and the SHA-256 of all that comes before it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plugins/cuda/compile/compiler.h"
#include "plugins/cuda/compile/sha256.h"

namespace bonsai::cuda {

struct CacheKey {
  Digest digest;      // digest_of the job
  int nvrtc_version;  // of the NVRTC that compiles it
};

std::string encode_entry(const CacheKey &key, const Binary &binary);

// Nothing unless the bytes are a whole, undamaged entry of this key.
std::optional<Binary> decode_entry(std::string_view bytes, const CacheKey &key);

}  // namespace bonsai::cuda
