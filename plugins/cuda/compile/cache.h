// Compiled kernels on disk, so that the next start compiles nothing. An entry is one file with PTX and cubin: whatever
// is found is proved before use, and nothing that goes wrong here is more than a line in the log.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plugins/cuda/compile/cache_entry.h"
#include "plugins/cuda/compile/log.h"
#include "plugins/cuda/compile/private_directory.h"

namespace bonsai::cuda {

// What the option cuda.kernel_cache means: "off" is no cache (an empty string), a directory is itself, and an empty
// string is $XDG_CACHE_HOME/bonsai/kernels or ~/.cache/bonsai/kernels, as far as the variables hold absolute paths.
std::string kernel_cache_directory(std::string_view option, const char *xdg_cache_home, const char *home);

// Any thread; also several processes at once.
class KernelCache {
 public:
  // `directory` is made when the first entry is stored; empty: nothing is kept. `max_bytes` bounds all entries
  // together: those that were used longest ago go first.
  KernelCache(std::string directory, Log log, uint64_t max_bytes = uint64_t{256} << 20);

  // Nothing where there is no entry, or one that is truncated, damaged, or another's.
  std::optional<Binary> load(const CacheKey &key);
  // The same of the first of these digests, and of any version of NVRTC, the newest first, that is kept and suits: for
  // machines where there is none to compile with.
  std::optional<Binary> load_any(std::span<const Digest> digests, const std::function<bool(const Binary &)> &suits);
  // Writes an entry, whole or not at all.
  void store(const CacheKey &key, const Binary &binary);

  const std::string &directory() const { return directory_; }
  // What was wrong first with the directory or with an entry that was looked for; empty: nothing was.
  std::string complaint();

 private:
  void trim(const PrivateDirectory &opened) const;
  std::optional<Binary> read_entry(const PrivateDirectory &directory, const CacheKey &key);
  void complain(const char *what, const char *consequence);

  std::string directory_;
  Log log_;
  uint64_t max_bytes_;
  std::mutex mutex_;
  std::string complaint_;
};

}  // namespace bonsai::cuda
