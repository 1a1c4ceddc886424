// Numbers as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bonsai::cli {

std::string format_bytes(uint64_t bytes);                    // "12.3 MiB"; below 1 KiB "12 bytes"
std::string counted(uint64_t n, std::string_view singular);  // "1 token", "2 tokens"

// The most memory that this process ever held (VmHWM), in bytes; nothing where the system does not say.
std::optional<uint64_t> peak_memory_bytes();

}  // namespace bonsai::cli
