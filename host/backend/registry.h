// Finds, loads and checks backends, and chooses one.
#pragma once

#include <bonsai/backend.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "host/backend/device.h"

namespace bonsai::host {

// The backend that takes over where another fails: always tried last, and always there.
inline constexpr std::string_view kCpuBackend = "cpu";
// What is asked for by a user who leaves the choice to the host; no backend's name.
inline constexpr std::string_view kAnyBackend = "auto";

// A shared object that was loaded and whose table passed the checks. It stays loaded until the process ends.
class Backend {
 public:
  static constexpr size_t kMaxNameBytes = 64;

  // Loads `path`. The message, without the path, says why not: no such file, not a shared object (the loader's words),
  // no entry symbol, no support for our major version, a required function missing, one of a level's functions missing,
  // a name that is another file's: libbonsai_NAME.so holds NAME, and any other file what it likes but the CPU's name.
  static Result<std::shared_ptr<const Backend>> load(const std::filesystem::path &path);

  // Whether `text` can be a backend's name: letters, digits, '-' and '_', at most kMaxNameBytes.
  static bool is_name(std::string_view text);
  // Whether a user who says `text` means a file by it.
  static bool is_path(std::string_view text) { return text.find('/') != std::string_view::npos; }
  static constexpr std::string_view kNeither = "neither a backend's name nor a path (a path has a '/')";

  const std::filesystem::path &path() const { return path_; }
  const std::string &name() const { return name_; }
  const std::string &version() const { return version_; }
  const std::string &description() const { return description_; }
  int priority() const { return api_.priority; }
  // A full-sized copy of the plugin's table: fields that the plugin's struct_size does not cover are NULL.
  const bonsai_backend_api &api() const { return api_; }
  int level() const;  // 0, 1 or 2

 private:
  Backend() = default;
  std::filesystem::path path_;
  std::string name_, version_, description_;
  bonsai_backend_api api_{};
};

// Where backends are looked for, in order; a name that was found is not looked for again.
struct SearchPath {
  std::vector<std::filesystem::path> directories;
  // "not found in A, B", for whoever found nothing there.
  std::string not_found() const;
  // BONSAI_BACKEND_PATH, then ../lib/bonsai and ../LIBDIR/bonsai from the program, bonsai beside libbonsai.so, and the
  // installed LIBDIR/bonsai. Each is absolute: it stays what it is when the program changes its directory.
  static SearchPath standard();
};

// One file that was considered: loaded, or why not.
struct Candidate {
  std::filesystem::path path;
  std::string name;
  std::shared_ptr<const Backend> backend;  // nullptr: rejected
  std::string reason;                      // why it was rejected; empty otherwise
  bool shadowed = false;                   // a backend of this name was found earlier in the search path
};

// NAME of a file called libbonsai_NAME.so; empty for any other.
std::string name_of_file(const std::filesystem::path &path);

// Every libbonsai_*.so in the search path, in search order (by file name within a directory).
std::vector<Candidate> discover(const SearchPath &search);

// A line of the story of the choice: what was considered, and why it was not taken. Info level, warnings marked.
using ChoiceLog = std::function<void(bonsai_log_level level, const std::string &line)>;

struct BackendRequest {
  std::string backend{kAnyBackend};   // that, a name, or a path (anything with a '/')
  bool strict = false;                // what was asked for or an error; else fall back to the CPU with a warning
  std::vector<DeviceOption> options;  // as the user gave them; each backend is sent only the keys it lists
  SearchPath search = SearchPath::standard();
  std::shared_ptr<const Backend> cpu = nullptr;  // the CPU backend, where that is loaded already
};

// What a device is opened for. With an error it is passed over as one that did not open is: a backend need not be able
// to do everything.
using DeviceUse = std::function<BackendResult<void>(std::unique_ptr<Device>)>;

// Opens a device and puts it to use: `auto` takes the first that serves, highest priority first, the CPU last (a
// backend of negative priority comes after it even so). Device 0 unless the option "device=N" says otherwise; the CPU
// as a last resort is always its device 0. Errors: nothing opened (each reason), the CPU or a strictly chosen backend
// did not serve (as `use` said); the caller's: an option that no backend knows (with those that are known) or whose
// value its backend refuses, also the CPU where that may have to take over. The device keeps a copy of `log` for the
// backend's own lines, which may come from any thread until it is closed.
BackendResult<void> open_device(const BackendRequest &request, const ChoiceLog &log, const DeviceUse &use);
// The device itself: every one that opens serves.
BackendResult<std::unique_ptr<Device>> open_device(const BackendRequest &request, const ChoiceLog &log);

// The CPU backend from the search path, loaded and not opened; nullptr, and told why, where there is none.
std::shared_ptr<const Backend> find_cpu(const SearchPath &search, const ChoiceLog &log);

// The CPU backend's device 0: what remains when another backend fails, before or after it was opened.
BackendResult<std::unique_ptr<Device>> open_cpu(const BackendRequest &request, const ChoiceLog &log);

}  // namespace bonsai::host
