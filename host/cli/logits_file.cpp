#include "host/cli/logits_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "host/cli/command.h"

namespace bonsai::cli {

LogitsFile::LogitsFile(const std::string &path, uint64_t tokens, uint64_t vocabulary) : path_(path), row_(vocabulary) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) throw Failure(fmt::format("{}: cannot read: {}", path, error.message()));
  const uint64_t expected = tokens * vocabulary * sizeof(float);
  if (bytes != expected) {
    throw Failure(fmt::format("{}: expected {} bytes, {} numbers of 4 bytes for each of {} tokens; found {}", path,
                              expected, vocabulary, tokens, bytes));
  }
  file_.open(path, std::ios::binary);
  if (!file_) throw Failure(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
}

std::span<const float> LogitsFile::row(uint64_t token) {
  const auto bytes = static_cast<std::streamsize>(row_.size() * sizeof(float));
  file_.seekg(static_cast<std::streamoff>(token) * bytes);
  if (!file_.read(reinterpret_cast<char *>(row_.data()), bytes)) {
    throw Failure(fmt::format("{}: cannot read all of it", path_));
  }
  const auto is_number = [](float logit) { return logit < INFINITY; };  // -infinity rules a token out
  if (!std::all_of(row_.begin(), row_.end(), is_number)) {
    throw Failure(fmt::format("{}: expected numbers, found a NaN or an infinity behind token {}", path_, token + 1));
  }
  return row_;
}

}  // namespace bonsai::cli
