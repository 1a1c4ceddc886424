// A directory that this user alone writes, and files in it that appear whole or not at all.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::cuda {

// Functions may be called from any thread, and by several processes at once. They throw std::runtime_error with one
// line that begins with the directory's path.
class PrivateDirectory {
 public:
  // Opens a directory. One that others can write, that belongs to another user, or that is a symbolic link is refused:
  // what is in it could be anybody's. One that others can only read is taken, and closed to them if it has the
  // default's name, .../bonsai/kernels; one that was named otherwise keeps its mode. Nothing if it does not exist.
  static std::optional<PrivateDirectory> open(const std::string &path);
  // The same, made first if need be, with what is missing above it: all with mode 0700.
  static PrivateDirectory make(const std::string &path);

  ~PrivateDirectory();
  PrivateDirectory(PrivateDirectory &&other) noexcept;
  PrivateDirectory &operator=(PrivateDirectory &&) = delete;

  // A file's contents, and marks it as used now. Nothing if there is none of that name, if it is no regular file, or if
  // it is longer than `max_bytes`. Throws if it belongs to another user, or others can write it.
  std::optional<std::string> read(const std::string &name, uint64_t max_bytes) const;
  // Writes a file under a temporary name and renames it: readers see the old file or the new one.
  void write(const std::string &name, std::string_view bytes) const;
  // No error if there is none of that name.
  void remove(const std::string &name) const;

  struct File {
    std::string name;
    uint64_t bytes;
    timespec used;  // when it was written or read last
  };
  // Regular files, those used longest ago first.
  std::vector<File> list() const;
  // Removes what processes left that ended while they wrote.
  void remove_abandoned() const;

 private:
  PrivateDirectory(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
};

}  // namespace bonsai::cuda
