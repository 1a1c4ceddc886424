// Loading a shared object and checking the table that it returns.
#define BOOST_DLL_USE_STD_FS
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <boost/dll/shared_library.hpp>
#include <cstddef>
#include <cstring>
#include <exception>
#include <span>
#include <string_view>

#include "core/base/floating_point_environment.h"
#include "host/backend/plugin_text.h"
#include "host/backend/registry.h"
#include "host/backend/shared_object.h"

namespace bonsai::host {
namespace {

constexpr size_t kMaxLoaderBytes = 4096;  // paths are among its words

// Boost.DLL reports "boost::dll::...() failed (dlerror system message: PATH: WORDS): errc"; a person wants WORDS.
std::string loader_words(std::string_view what, const std::string &path) {
  constexpr std::string_view kBefore = "dlerror system message: ";
  const size_t begin = what.find(kBefore);
  const size_t end = what.rfind("): ");
  if (begin == what.npos || end == what.npos || end < begin + kBefore.size()) return std::string(what);
  std::string_view words = what.substr(begin + kBefore.size(), end - begin - kBefore.size());
  if (words.starts_with(path + ": ")) words.remove_prefix(path.size() + 2);
  return std::string(words);
}

// Whether the loader's tables say that a symbol is data, which must not be called.
bool is_data(const void *address) {
  Dl_info info;
  const ElfW(Sym) *symbol = nullptr;
  if (dladdr1(address, &info, const_cast<void **>(reinterpret_cast<const void **>(&symbol)), RTLD_DL_SYMENT) == 0) {
    return false;
  }
  return symbol && info.dli_saddr == address && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT;
}

struct Function {
  const char *name;
  bool offered;
};

std::string list_names(std::span<const Function> functions, bool offered) {
  std::string names;
  for (const Function &function : functions) {
    if (function.offered != offered) continue;
    if (!names.empty()) names += ", ";
    names += function.name;
  }
  return names;
}

bool all_offered(std::span<const Function> functions) {
  return std::all_of(functions.begin(), functions.end(), [](const Function &f) { return f.offered; });
}

bool none_offered(std::span<const Function> functions) {
  return std::none_of(functions.begin(), functions.end(), [](const Function &f) { return f.offered; });
}

#define BONSAI_FUNCTION(api, name) \
  Function { #name, (api).name != nullptr }

// The functions of each level, as the ABI's table groups them.
Result<void> check_levels(const bonsai_backend_api &api) {
  const std::array required = {BONSAI_FUNCTION(api, device_count),  BONSAI_FUNCTION(api, device_info),
                               BONSAI_FUNCTION(api, device_open),   BONSAI_FUNCTION(api, device_close),
                               BONSAI_FUNCTION(api, dtype_support), BONSAI_FUNCTION(api, weight_upload),
                               BONSAI_FUNCTION(api, weight_free),   BONSAI_FUNCTION(api, gemv)};
  const std::array level_1 = {BONSAI_FUNCTION(api, session_memory), BONSAI_FUNCTION(api, session_create),
                              BONSAI_FUNCTION(api, session_destroy), BONSAI_FUNCTION(api, layer_encode),
                              BONSAI_FUNCTION(api, lm_head)};
  const std::array level_2 = {BONSAI_FUNCTION(api, forward_submit), BONSAI_FUNCTION(api, forward_wait)};
  if (!all_offered(required)) return fail("required functions are NULL: {}", list_names(required, false));
  if (!all_offered(level_1) && !none_offered(level_1)) {
    return fail("offers half of level 1: has {}, lacks {}", list_names(level_1, true), list_names(level_1, false));
  }
  if (!all_offered(level_2) && !none_offered(level_2)) {
    return fail("offers half of level 2: has {}, lacks {}", list_names(level_2, true), list_names(level_2, false));
  }
  if (all_offered(level_2) && none_offered(level_1)) {
    return fail("offers level 2 without level 1, whose session functions it needs");
  }
  return {};
}

#undef BONSAI_FUNCTION

// Copies as many whole fields as both sides know: a newer backend's table is longer, an older one's is shorter.
Result<bonsai_backend_api> copy_table(const bonsai_backend_api &theirs) {
  constexpr uint32_t kLevel0Bytes = offsetof(bonsai_backend_api, gemv) + sizeof(bonsai_backend_api::gemv);
  if (theirs.struct_size < kLevel0Bytes) {
    return fail("its table has {} bytes, level 0 needs {}", theirs.struct_size, kLevel0Bytes);
  }
  if (theirs.abi_major != BONSAI_ABI_MAJOR) {
    return fail("built for ABI {}.{}, this host speaks {}.{}", theirs.abi_major, theirs.abi_minor, BONSAI_ABI_MAJOR,
                BONSAI_ABI_MINOR);
  }
  constexpr size_t kField = sizeof(void *);
  bonsai_backend_api ours{};
  std::memcpy(&ours, &theirs, std::min<size_t>(theirs.struct_size / kField * kField, sizeof ours));
  return ours;
}

Result<const bonsai_backend_api *> load_table(const std::filesystem::path &path) {
  namespace dll = boost::dll;
  if (auto checked = check_shared_object(path); !checked) return tl::unexpected(checked.error());
  // RTLD_NODELETE is the ABI's promise "once loaded, stays loaded": threads and static objects of a backend may outlive
  // every handle, and unmapping their code under them would crash the process. So the library object may go.
  const auto mode = static_cast<dll::load_mode::type>(dll::load_mode::rtld_now | RTLD_NODELETE);
  // What -ffast-math links into a shared object has the thread that loads it flush subnormals from then on.
  const DefaultFloatingPoint environment;
  try {
    const dll::shared_library library(path, mode);
    if (!library.has(BONSAI_BACKEND_ENTRY_NAME)) {
      return fail("no symbol {}: not a Bonsai backend", BONSAI_BACKEND_ENTRY_NAME);
    }
    const auto entry = reinterpret_cast<bonsai_backend_entry_fn>(
        &library.get<const bonsai_backend_api *(uint32_t, uint32_t)>(BONSAI_BACKEND_ENTRY_NAME));
    if (is_data(reinterpret_cast<const void *>(entry))) {
      return fail("{} is data, expected a function", BONSAI_BACKEND_ENTRY_NAME);
    }
    return entry(BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  } catch (const std::exception &error) {
    return fail("{}", plugin_text(loader_words(error.what(), path.string()).c_str(), kMaxLoaderBytes));
  } catch (...) {
    return fail("{} threw an exception of unknown type", BONSAI_BACKEND_ENTRY_NAME);
  }
}

// One backend has one name, the file's and the table's: else `--backend NAME` would mean one thing and a list another.
Result<void> check_name(const std::string &name, const std::filesystem::path &path) {
  if (name == kAnyBackend) return fail("its name is '{}', which means any backend", name);
  const std::string expected = name_of_file(path);
  if (!expected.empty() && name != expected)
    return fail("its name is '{}', expected '{}' in a file of this name", name, expected);
  if (expected.empty() && name == kCpuBackend)
    return fail("its name is '{}', which is kept for the backend in libbonsai_{}.so", name, name);
  return {};
}

std::string or_else(std::string text, const char *otherwise) { return text.empty() ? otherwise : text; }

}  // namespace

Result<std::shared_ptr<const Backend>> Backend::load(const std::filesystem::path &path) {
  const auto table = load_table(path);
  if (!table) return tl::unexpected(table.error());
  if (*table == nullptr) return fail("does not serve ABI {}.{}", BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  const auto api = copy_table(**table);
  if (!api) return tl::unexpected(api.error());
  if (auto checked = check_levels(*api); !checked) return tl::unexpected(checked.error());

  // One byte more than is legal, so that a name that is too long is refused and not cut.
  const std::string name = plugin_text(api->name, kMaxNameBytes + 1);
  if (!is_name(name)) {
    return fail("illegal name '{}': expected 1 to {} letters, digits, '-' and '_'", name, kMaxNameBytes);
  }
  if (auto checked = check_name(name, path); !checked) return tl::unexpected(checked.error());
  Backend backend;
  backend.path_ = path;
  backend.name_ = name;
  backend.version_ = or_else(plugin_text(api->version, kMaxTextBytes), "(no version)");
  backend.description_ = or_else(plugin_text(api->description, kMaxTextBytes), "(no description)");
  backend.api_ = *api;
  return std::make_shared<const Backend>(std::move(backend));
}

bool Backend::is_name(std::string_view text) {
  const auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !text.empty() && text.size() <= kMaxNameBytes && std::all_of(text.begin(), text.end(), legal);
}

int Backend::level() const {
  if (api_.forward_submit != nullptr) return 2;
  return api_.session_create != nullptr ? 1 : 0;
}

}  // namespace bonsai::host
