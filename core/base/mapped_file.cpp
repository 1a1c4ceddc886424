#include "core/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "core/base/file_name.h"

namespace bonsai {
namespace {

// Closes on scope exit: a mapping outlives its descriptor.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string &path) {
  if (const auto checked = check_file_name(path, "read"); !checked) return tl::unexpected(checked.error());
  // O_NONBLOCK so that a FIFO is refused below rather than waited for.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return fail("{}: cannot open: {}", path, std::generic_category().message(errno));
  struct stat status {};
  if (::fstat(file.fd, &status) != 0)
    return fail("{}: cannot read its size: {}", path, std::generic_category().message(errno));
  if (S_ISDIR(status.st_mode)) return fail("{}: is a directory, expected a file", path);
  if (!S_ISREG(status.st_mode)) return fail("{}: cannot be mapped, expected a regular file", path);
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return MappedFile(path, nullptr, 0);
  void *data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED)
    return fail("{}: cannot map {} bytes: {}", path, size, std::generic_category().message(errno));
  return MappedFile(path, static_cast<const std::byte *>(data), size);
}

MappedFile::MappedFile(std::string path, const std::byte *data, size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  // `old` takes what this file mapped until now, and unmaps it.
  MappedFile old(std::move(*this));
  path_ = std::move(other.path_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte *>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> range) const {
  const auto first = reinterpret_cast<uintptr_t>(range.data());
  const auto mapping = reinterpret_cast<uintptr_t>(data_);
  // Memory that is not a file's would lose its contents.
  if (first < mapping || first + range.size() > mapping + size_) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (first + page - 1) / page * page;
  const uintptr_t end = (first + range.size()) / page * page;
  // Advice only: a kernel that does not take it costs memory, not correctness.
  if (begin < end) ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace bonsai
