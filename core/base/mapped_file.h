// A read-only memory-mapped file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/base/result.h"

namespace bonsai {

// Owns the mapping; moving keeps the addresses. An empty file maps to an empty span.
class MappedFile {
 public:
  // Fails when the path does not exist, is a directory, is not readable or cannot be mapped; the message begins with
  // the path, unless that is empty.
  static Result<MappedFile> open(const std::string &path);

  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string &path() const { return path_; }

  // Tells the kernel that the whole pages inside `range` are not needed again soon; they stay readable. A range outside
  // the mapping is left alone.
  void release(std::span<const std::byte> range) const;

 private:
  MappedFile(std::string path, const std::byte *data, size_t size);
  std::string path_;
  const std::byte *data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace bonsai
