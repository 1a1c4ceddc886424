// Where backends lie, and what lies there.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "core/base/program_path.h"
#include "host/backend/registry.h"

namespace bonsai::host {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "libbonsai_";
constexpr std::string_view kSuffix = ".so";

// The directory of the shared library that this code is part of; empty where it is part of the program.
fs::path library_directory() {
  Dl_info found;
  void *map = nullptr;
  if (::dladdr1(reinterpret_cast<const void *>(&library_directory), &found, &map, RTLD_DL_LINKMAP) == 0) return {};
  const std::string_view name = static_cast<const link_map *>(map)->l_name;
  std::error_code error;
  const fs::path path = name.empty() ? fs::path() : fs::canonical(name, error);
  return error ? fs::path() : path.parent_path();
}

// Asked when this code is loaded: a library that was opened by a relative path is known to the loader by that alone,
// which means something else once the program has changed its directory.
const fs::path kLibraryDirectory = library_directory();

// A directory that does not exist or cannot be read holds no backends.
std::vector<fs::path> backend_files(const fs::path &directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (!name_of_file(entry->path()).empty()) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string name_of_file(const fs::path &path) {
  const std::string file = path.filename().string();
  if (file.size() <= kPrefix.size() + kSuffix.size() || !file.starts_with(kPrefix) || !file.ends_with(kSuffix)) {
    return {};
  }
  return file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
}

std::string SearchPath::not_found() const {
  std::vector<std::string> names;
  for (const fs::path &directory : directories) names.push_back(directory.string());
  return fmt::format("not found in {}", fmt::join(names, ", "));
}

SearchPath SearchPath::standard() {
  SearchPath search;
  const auto add = [&](const fs::path &directory) {
    std::error_code error;
    const fs::path absolute = fs::absolute(directory, error);
    fs::path normal = (error ? directory : absolute).lexically_normal();
    if (!normal.has_filename()) normal = normal.parent_path();  // "/opt/a/" is "/opt/a"
    if (std::find(search.directories.begin(), search.directories.end(), normal) == search.directories.end()) {
      search.directories.push_back(normal);
    }
  };
  const char *variable = std::getenv("BONSAI_BACKEND_PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    if (!directory.empty()) add(directory);
    rest.remove_prefix(std::min(rest.size(), directory.size() + 1));
  }
  if (const fs::path program = program_path(); !program.empty()) {
    const fs::path prefix = program.parent_path().parent_path();
    add(prefix / "lib" / "bonsai");
    add(prefix / BONSAI_LIBDIR / "bonsai");  // as it was installed, "lib/x86_64-linux-gnu" for one
  }
  if (!kLibraryDirectory.empty()) add(kLibraryDirectory / "bonsai");
  add(BONSAI_INSTALLED_BACKENDS);
  return search;
}

std::vector<Candidate> discover(const SearchPath &search) {
  std::vector<Candidate> candidates;
  for (const fs::path &directory : search.directories) {
    for (const fs::path &path : backend_files(directory)) {
      Candidate candidate;
      candidate.path = path;
      candidate.name = name_of_file(path);
      if (auto backend = Backend::load(path)) {
        candidate.backend = *std::move(backend);
      } else {
        candidate.reason = backend.error().message;
      }
      // A file that was rejected hides nothing: a broken copy must not take a working one away.
      candidate.shadowed = std::any_of(candidates.begin(), candidates.end(), [&](const Candidate &earlier) {
        return earlier.backend != nullptr && earlier.name == candidate.name;
      });
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

}  // namespace bonsai::host
