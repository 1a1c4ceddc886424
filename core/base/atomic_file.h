// A file that is written whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace bonsai {

// Writes to PATH.part-PID and renames that in the end: a reader sees the old content or the new, and after any failure
// the old. The destructor removes what was not committed. Where PATH is a symbolic link, the file that it leads to is
// the one that is replaced. Errors begin with PATH, as it was given, unless it is empty, and name the cause
// (disk full, say).
class AtomicFile {
 public:
  // Who may use a file that is new. One that was there keeps its permissions, a list of users and groups (ACL)
  // included, and its owner where the system lets us.
  enum class Access { kByUmask, kOwnerOnly };

  // Errors: what is there is not a regular file (a device would become one), or none can be created in that folder.
  static Result<AtomicFile> create(const std::string &path, Access access = Access::kByUmask);
  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&other) noexcept;
  ~AtomicFile();

  // After an error nothing can be written any more, nor committed.
  Result<void> write(std::span<const std::byte> bytes);
  // Makes the file this long, with zeros behind what was written; writing goes on where it was. Precondition: it is no
  // shorter.
  Result<void> extend(uint64_t bytes);
  // Where the content lies until it is committed.
  const std::string &temporary() const { return temporary_; }
  // Waits until the disk has everything, and puts it in its place; the last call.
  Result<void> commit();

 private:
  AtomicFile() = default;
  bool open_temporary(unsigned mode);
  tl::unexpected<Error> cannot_write();
  void discard();

  std::string path_;
  std::filesystem::path target_;  // where links from `path_` lead
  std::string temporary_;         // empty once it has been renamed
  int fd_ = -1;
};

// All at once.
Result<void> write_whole_file(const std::string &path, std::string_view content);

// What AtomicFile::create() would say, for who has long work to do before; leaves nothing behind.
Result<void> check_replaceable(const std::string &path);

}  // namespace bonsai
