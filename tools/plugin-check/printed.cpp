#include "tools/plugin-check/printed.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>

namespace bonsai::check {

Printed::Printed() : file_(memfd_create("printed", MFD_CLOEXEC)) {
  std::fflush(nullptr);
  for (size_t i = 0; i < kStreams.size(); ++i) {
    streams_[i] = dup(kStreams[i]);
    dup2(file_, kStreams[i]);
  }
}

Printed::~Printed() {
  std::fflush(nullptr);
  for (size_t i = 0; i < kStreams.size(); ++i) {
    dup2(streams_[i], kStreams[i]);
    close(streams_[i]);
  }
  close(file_);
}

std::string Printed::text() const {
  std::fflush(nullptr);
  std::array<char, 200> bytes;
  const ssize_t n = pread(file_, bytes.data(), bytes.size(), 0);
  return {bytes.data(), static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

}  // namespace bonsai::check
