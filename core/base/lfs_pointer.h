// What lies in a clone's place of a large file until Git LFS has fetched it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace bonsai {

// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md, "The Pointer".
inline bool is_lfs_pointer(std::span<const std::byte> bytes) {
  constexpr std::string_view kBegin = "version https://git-lfs";
  return std::string_view(reinterpret_cast<const char *>(bytes.data()), bytes.size()).starts_with(kBegin);
}

}  // namespace bonsai
