#include "plugins/cuda/compile/private_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>

namespace bonsai::cuda {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
constexpr mode_t kOthersUse = S_IRWXG | S_IRWXO;
// Where the cache is if nobody says otherwise (kernel_cache_directory()): a directory of this program's own.
constexpr std::string_view kOwnName = "/bonsai/kernels";
constexpr std::string_view kTemporary = ".writing-";
constexpr time_t kAbandonedSeconds = 3600;

template <class... Args>
[[noreturn]] void fail(const std::string &path, fmt::format_string<Args...> format, Args &&...args) {
  throw std::runtime_error(path + ": " + fmt::format(format, std::forward<Args>(args)...));
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

// "a/b//" to "a/b": with a slash at its end, a path would be followed although it names a symbolic link.
std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

void make_with_parents(const std::string &path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string upper = path.substr(0, slash);
    if (mkdir(upper.c_str(), 0700) != 0 && errno != EEXIST) fail(upper, "{}", std::strerror(errno));
    if (slash == std::string::npos) return;
  }
}

// `mode` is for messages: what would do.
void check_private(const std::string &path, const struct stat &status, mode_t mode) {
  if (status.st_uid != geteuid()) fail(path, "belongs to user {}, expected {}", status.st_uid, geteuid());
  if (status.st_mode & kOthersWrite) {
    fail(path, "others can write it (mode {:04o}), expected {:04o}", status.st_mode & 07777, mode);
  }
}

// One that exists may be older than this rule, or be made by hand. It stays as it is where a person chose it, who may
// have reasons. No error where that fails, as on a disk that is read-only: what others only read is still ours.
void close_to_others(const std::string &path, int descriptor) {
  struct stat directory;
  if (!path.ends_with(kOwnName) || fstat(descriptor, &directory) != 0) return;
  if (directory.st_mode & kOthersUse) fchmod(descriptor, directory.st_mode & 07777 & ~kOthersUse);
}

// -1 where it does not exist.
int open_private(const std::string &path) {
  struct stat link;
  if (lstat(path.c_str(), &link) != 0) {
    if (errno == ENOENT) return -1;
    fail(path, "{}", std::strerror(errno));
  }
  if (S_ISLNK(link.st_mode)) fail(path, "is a symbolic link, expected a directory");
  // What stands there may have changed since: no links are followed, and what was opened is checked.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (descriptor.get() < 0) fail(path, "{}", std::strerror(errno));
  struct stat directory;
  if (fstat(descriptor.get(), &directory) != 0) fail(path, "{}", std::strerror(errno));
  check_private(path, directory, 0700);
  close_to_others(path, descriptor.get());
  return descriptor.release();
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool read_all(int descriptor, std::string &bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::read(descriptor, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

struct CloseDirectory {
  void operator()(DIR *directory) const { closedir(directory); }
};

}  // namespace

PrivateDirectory::~PrivateDirectory() {
  if (descriptor_ >= 0) close(descriptor_);
}

PrivateDirectory::PrivateDirectory(PrivateDirectory &&other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

std::optional<PrivateDirectory> PrivateDirectory::open(const std::string &path) {
  const std::string plain = without_end_slashes(path);
  const int descriptor = open_private(plain);
  if (descriptor < 0) return std::nullopt;
  return PrivateDirectory(plain, descriptor);
}

PrivateDirectory PrivateDirectory::make(const std::string &path) {
  const std::string plain = without_end_slashes(path);
  int descriptor = open_private(plain);
  if (descriptor < 0) {
    make_with_parents(plain);
    descriptor = open_private(plain);
  }
  if (descriptor < 0) fail(plain, "{}", std::strerror(ENOENT));
  return PrivateDirectory(plain, descriptor);
}

std::optional<std::string> PrivateDirectory::read(const std::string &name, uint64_t max_bytes) const {
  // Not blocking: what has the name may be a pipe.
  const Descriptor file(openat(descriptor_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const std::string path = path_ + "/" + name;
  if (file.get() < 0 && errno == EACCES) fail(path, "{}", std::strerror(errno));
  struct stat status;
  if (file.get() < 0 || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  check_private(path, status, 0600);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > max_bytes) return std::nullopt;
  std::string bytes(size, '\0');
  if (!read_all(file.get(), bytes)) return std::nullopt;
  futimens(file.get(), nullptr);  // fails where the disk is read-only, and then nothing is removed by age either
  return bytes;
}

// No fsync: whoever reads proves what it reads, so a file that a power failure cut off does no harm.
void PrivateDirectory::write(const std::string &name, std::string_view bytes) const {
  std::random_device random;
  const std::string temporary = fmt::format("{}{:08x}{:08x}", kTemporary, random(), random());
  Descriptor file(openat(descriptor_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) fail(path_, "{}", std::strerror(errno));
  bool is_written = write_all(file.get(), bytes);
  int error = errno;
  if (is_written && close(file.release()) != 0) is_written = false, error = errno;
  if (is_written && renameat(descriptor_, temporary.c_str(), descriptor_, name.c_str()) != 0) {
    is_written = false, error = errno;
  }
  if (is_written) return;
  unlinkat(descriptor_, temporary.c_str(), 0);
  fail(path_, "{}", std::strerror(error));
}

void PrivateDirectory::remove(const std::string &name) const {
  if (unlinkat(descriptor_, name.c_str(), 0) != 0 && errno != ENOENT) fail(path_, "{}", std::strerror(errno));
}

std::vector<PrivateDirectory::File> PrivateDirectory::list() const {
  // Opened anew: descriptors that are copies of one another share their place in the list.
  const int again = openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseDirectory> directory(again < 0 ? nullptr : fdopendir(again));
  if (!directory) fail(path_, "{}", std::strerror(errno));
  std::vector<File> files;
  while (const dirent *entry = readdir(directory.get())) {
    struct stat status;
    if (fstatat(descriptor_, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) continue;
    files.push_back({entry->d_name, static_cast<uint64_t>(status.st_size), status.st_mtim});
  }
  std::sort(files.begin(), files.end(), [](const File &a, const File &b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  return files;
}

void PrivateDirectory::remove_abandoned() const {
  const time_t now = time(nullptr);
  for (const File &file : list()) {
    if (file.name.starts_with(kTemporary) && now - file.used.tv_sec > kAbandonedSeconds) remove(file.name);
  }
}

}  // namespace bonsai::cuda
