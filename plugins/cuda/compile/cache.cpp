#include "plugins/cuda/compile/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace bonsai::cuda {
namespace {

// No entry comes near: what is longer is no entry.
constexpr uint64_t kMaxEntryBytes = uint64_t{64} << 20;

constexpr std::string_view kVersionFollows = ".nvrtc-";

constexpr const char *kCompiledAnew = "kernels are compiled at every start";

// All versions of one unit have this in front.
std::string name_prefix(const Digest &digest) { return hex(digest) + std::string(kVersionFollows); }

std::string file_name(const CacheKey &key) { return fmt::format("{}{}", name_prefix(key.digest), key.nvrtc_version); }

// The version that is all of a text; 0 if it is none.
int parse_version(std::string_view text) {
  int version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  return error == std::errc{} && end == text.data() + text.size() ? version : 0;
}

// The version at the end of a file's name; 0 if there is none.
int version_in(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? parse_version(name.substr(prefix.size())) : 0;
}

// Whether a file's name is one that an entry has. The directory may be one where the user keeps other things.
bool is_entry(std::string_view name) {
  constexpr size_t kHexDigits = 2 * std::tuple_size_v<Digest>;
  if (name.substr(0, kHexDigits).find_first_not_of("0123456789abcdef") != name.npos) return false;
  return name.size() > kHexDigits && version_in(name.substr(kHexDigits), kVersionFollows) > 0;
}

// The versions of a unit among files, the newest first.
std::vector<int> versions_among(const std::vector<PrivateDirectory::File> &files, const Digest &digest) {
  const std::string prefix = name_prefix(digest);
  std::vector<int> versions;
  for (const auto &file : files) {
    if (const int version = version_in(file.name, prefix); version > 0) versions.push_back(version);
  }
  std::sort(versions.begin(), versions.end(), std::greater<>());
  return versions;
}

bool is_absolute(const char *path) { return path && path[0] == '/'; }

}  // namespace

std::string kernel_cache_directory(std::string_view option, const char *xdg_cache_home, const char *home) {
  if (option == "off") return {};
  if (!option.empty()) return std::string(option);
  if (is_absolute(xdg_cache_home)) return std::string(xdg_cache_home) + "/bonsai/kernels";
  if (is_absolute(home)) return std::string(home) + "/.cache/bonsai/kernels";
  return {};
}

KernelCache::KernelCache(std::string directory, Log log, uint64_t max_bytes)
    : directory_(std::move(directory)), log_(std::move(log)), max_bytes_(max_bytes) {}

std::optional<Binary> KernelCache::read_entry(const PrivateDirectory &directory, const CacheKey &key) {
  const std::string name = file_name(key);
  std::optional<std::string> bytes;
  try {
    bytes = directory.read(name, kMaxEntryBytes);
  } catch (const std::runtime_error &error) {
    complain(error.what(), "it is not used");  // another version may do
  }
  if (!bytes) return std::nullopt;
  auto binary = decode_entry(*bytes, key);
  if (!binary && log_) log_(BONSAI_LOG_INFO, fmt::format("cuda: kernel cache: {} is damaged and not used", name));
  return binary;
}

std::optional<Binary> KernelCache::load(const CacheKey &key) {
  if (directory_.empty()) return std::nullopt;
  try {
    const auto opened = PrivateDirectory::open(directory_);
    return opened ? read_entry(*opened, key) : std::nullopt;
  } catch (const std::runtime_error &error) {
    complain(error.what(), kCompiledAnew);
    return std::nullopt;
  }
}

std::optional<Binary> KernelCache::load_any(std::span<const Digest> digests,
                                            const std::function<bool(const Binary &)> &suits) {
  if (directory_.empty()) return std::nullopt;
  try {
    const auto opened = PrivateDirectory::open(directory_);
    if (!opened) return std::nullopt;
    const std::vector<PrivateDirectory::File> files = opened->list();
    for (const Digest &digest : digests) {
      for (const int version : versions_among(files, digest)) {
        auto binary = read_entry(*opened, {digest, version});
        if (binary && suits(*binary)) return binary;
      }
    }
  } catch (const std::runtime_error &error) {
    complain(error.what(), kCompiledAnew);
  }
  return std::nullopt;
}

void KernelCache::store(const CacheKey &key, const Binary &binary) {
  if (directory_.empty()) return;
  try {
    const PrivateDirectory opened = PrivateDirectory::make(directory_);
    opened.write(file_name(key), encode_entry(key, binary));
    trim(opened);
  } catch (const std::runtime_error &error) {
    complain(error.what(), kCompiledAnew);
  }
}

void KernelCache::trim(const PrivateDirectory &opened) const {
  opened.remove_abandoned();
  std::vector<PrivateDirectory::File> files = opened.list();
  std::erase_if(files, [](const PrivateDirectory::File &file) { return !is_entry(file.name); });
  uint64_t bytes = 0;
  for (const auto &file : files) bytes += file.bytes;
  for (const auto &file : files) {
    if (bytes <= max_bytes_) return;
    opened.remove(file.name);
    bytes -= file.bytes;
  }
}

// Once: the same thing is wrong with the next entry.
void KernelCache::complain(const char *what, const char *consequence) {
  const std::lock_guard lock(mutex_);
  if (!complaint_.empty()) return;
  complaint_ = what;
  if (log_) log_(BONSAI_LOG_WARNING, fmt::format("cuda: kernel cache: {}; {}", what, consequence));
}

std::string KernelCache::complaint() {
  const std::lock_guard lock(mutex_);
  return complaint_;
}

}  // namespace bonsai::cuda
