// Files under /proc.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace bonsai {

// The value of the first line "key : value" of a file; empty if there is none.
inline std::string read_proc(const char *path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return {};
}

}  // namespace bonsai
