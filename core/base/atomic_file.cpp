#include "core/base/atomic_file.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/file_name.h"

namespace bonsai {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) { return std::generic_category().message(error); }

// The last link may lead to where nothing is yet: std::filesystem::canonical() would refuse that. Links in front of the
// file's own name are the kernel's business.
fs::path follow_links(fs::path path) {
  constexpr int kMostLinks = 40;  // the kernel's own limit
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code is_no_link;
    const fs::path next = fs::read_symlink(path, is_no_link);
    if (is_no_link) break;
    path = path.parent_path() / next;
  }
  return path;
}

fs::path folder_of(const fs::path &file) { return file.has_parent_path() ? file.parent_path() : "."; }

// A file's POSIX ACL, a list of users and groups with what each may do. With one, st_mode's bits for the group are the
// most that anybody in it gets, not what the group has.
constexpr const char *kAccessList = "system.posix_acl_access";

// Empty where the file has none; nullopt where that cannot be told.
std::optional<std::vector<char>> read_access_list(const std::string &path) {
  std::vector<char> list(XATTR_SIZE_MAX);
  const ssize_t size = ::getxattr(path.c_str(), kAccessList, list.data(), list.size());
  if (size < 0 && errno != ENODATA && errno != ENOTSUP) return std::nullopt;
  list.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return list;
}

// A new file may have a list already, from its folder.
bool set_access_list(int fd, const std::vector<char> &list) {
  if (!list.empty()) return ::fsetxattr(fd, kAccessList, list.data(), list.size(), 0) == 0;
  return ::fremovexattr(fd, kAccessList) == 0 || errno == ENODATA || errno == ENOTSUP;
}

// Takes over whose the file at `path` is and who may use it, as far as the system allows it: only root gives a file to
// somebody else. Where it cannot be the old group's, another group gets no more than everybody. An access list counts
// whole or not at all; where it cannot be kept, only the owner may use the file. Owner first, since a change of owner
// takes permissions away.
void take_over(int fd, const std::string &path, const struct stat &old) {
  constexpr auto kSameOwner = static_cast<uid_t>(-1);
  const bool has_group = ::fchown(fd, old.st_uid, old.st_gid) == 0 || ::fchown(fd, kSameOwner, old.st_gid) == 0;
  const auto list = read_access_list(path);
  const bool has_list = list && (has_group || list->empty()) && set_access_list(fd, *list);
  const mode_t group = has_group ? old.st_mode & 0070 : (old.st_mode & 0007) << 3;
  ::fchmod(fd, has_list ? (old.st_mode & 0707) | group : old.st_mode & 0700);
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string &path, Access access) {
  if (const auto checked = check_file_name(path, "write"); !checked) return tl::unexpected(checked.error());
  // The kernel follows links here under its own rules (protected_symlinks): what it forbids ends here.
  struct stat old {};
  const bool is_new = ::stat(path.c_str(), &old) != 0;
  if (is_new && errno != ENOENT) return fail("{}: cannot write: {}", path, reason(errno));
  if (!is_new && !S_ISREG(old.st_mode)) return fail("{}: is not a regular file, expected one or a new name", path);
  AtomicFile file;
  file.path_ = path;
  file.target_ = follow_links(path);
  const unsigned mode_if_new = access == Access::kOwnerOnly ? 0600 : 0666;
  if (!file.open_temporary(is_new ? mode_if_new : old.st_mode & 0700)) {
    const int error = errno;
    return fail("{}: cannot create a file in {}: {}", path, folder_of(file.target_).string(), reason(error));
  }
  if (!is_new) take_over(file.fd_, path, old);
  return file;
}

// Never with more permissions than in the end: somebody could open it meanwhile. In place of another file it begins as
// its owner's alone, since it has our group until take_over(). Whoever had our number before may have been killed and
// have left its file, and other threads may write the same one.
bool AtomicFile::open_temporary(unsigned mode) {
  constexpr int kMostAttempts = 1000;
  constexpr size_t kMostNameBytes = 255 - 24;  // with what is added a name still is one
  const std::string name = target_.filename().string().substr(0, kMostNameBytes);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const std::string suffix = attempt == 0 ? "" : fmt::format("-{}", attempt);
    std::string temporary = (target_.parent_path() / fmt::format("{}.part-{}{}", name, ::getpid(), suffix)).string();
    fd_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd_ >= 0) temporary_ = std::move(temporary);
    if (fd_ >= 0 || errno != EEXIST) break;
  }
  return fd_ >= 0;
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile &AtomicFile::operator=(AtomicFile &&other) noexcept {
  // `old` takes what this one was writing until now, and removes it.
  AtomicFile old(std::move(*this));
  path_ = std::move(other.path_);
  target_ = std::move(other.target_);
  temporary_ = std::exchange(other.temporary_, {});
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty()) ::unlink(std::exchange(temporary_, {}).c_str());
}

tl::unexpected<Error> AtomicFile::cannot_write() {
  auto error = fail("{}: cannot write: {}", path_, reason(errno));
  discard();
  return error;
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot_write();
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> AtomicFile::extend(uint64_t bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return cannot_write();
  return {};
}

Result<void> AtomicFile::commit() {
  if (::fsync(fd_) != 0) return cannot_write();
  if (::close(std::exchange(fd_, -1)) != 0) return cannot_write();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    auto error = fail("{}: cannot rename {} to it: {}", path_, temporary_, reason(errno));
    discard();
    return error;
  }
  temporary_.clear();
  return {};
}

Result<void> write_whole_file(const std::string &path, std::string_view content) {
  auto file = AtomicFile::create(path);
  if (!file) return tl::unexpected(file.error());
  if (auto written = file->write(std::as_bytes(std::span(content))); !written) return written;
  return file->commit();
}

Result<void> check_replaceable(const std::string &path) {
  const auto file = AtomicFile::create(path);
  if (!file) return tl::unexpected(file.error());
  return {};
}

}  // namespace bonsai
