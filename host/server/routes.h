// Which path of a server is whose.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>

#include "core/base/utf8.h"

namespace bonsai::server {

template <class Handler>
struct Route {
  std::string_view method, path;  // a path that ends with '/' is that of all things whose name comes behind
  bool is_public;
  Handler handler;

  bool takes(std::string_view asked) const { return asked == method || (asked == "HEAD" && method == "GET"); }
  bool is_at(std::string_view asked) const {
    const bool has_name = path.size() > 1 && path.ends_with('/');
    return has_name ? asked.starts_with(path) : asked == path;
  }
};

// Where several routes fit, the first does.
template <class Handler>
class Routes {
 public:
  explicit constexpr Routes(std::span<const Route<Handler>> all) : all_(all) {}

  // That for the method, or else any for the path; null: there is none.
  const Route<Handler> *find(std::string_view path, std::string_view method = "") const {
    const Route<Handler> *found = nullptr;
    for (const Route<Handler> &route : all_) {
      if (!route.is_at(path)) continue;
      if (route.takes(method)) return &route;
      if (found == nullptr) found = &route;
    }
    return found;
  }

  // "GET, HEAD"
  std::string methods_at(std::string_view path) const {
    std::string methods;
    for (const Route<Handler> &route : all_) {
      if (!route.is_at(path)) continue;
      methods += fmt::format("{}{}", methods.empty() ? "" : ", ", route.method);
      if (route.method == "GET") methods += ", HEAD";
    }
    return methods;
  }

  // Few, whatever clients ask for.
  std::string_view name_of(std::string_view path) const {
    const Route<Handler> *route = find(path);
    return route == nullptr ? "other" : route->path;
  }

  // Clients are set up for a base URL without /v1, or with one too many, or with a slash more; and what OpenAI has as
  // /v1/completions llama.cpp's server has as /completion.
  std::string no_such_path(std::string_view path) const {
    constexpr std::string_view kVersion = "/v1";
    const std::string said = fmt::format("no such path: {}", bonsai::printable(path));
    const std::string plain = with_single_slashes(path);
    const std::string other =
        plain.starts_with(kVersion) ? plain.substr(kVersion.size()) : fmt::format("{}{}", kVersion, plain);
    for (const std::string &meant : {plain, other, plain + "s", other + "s"})
      if (find(meant) != nullptr) return fmt::format("{}; expected {}", said, bonsai::printable(meant));
    return said;
  }

 private:
  // None at the end.
  static std::string with_single_slashes(std::string_view path) {
    std::string plain;
    for (const char c : path)
      if (c != '/' || !plain.ends_with('/')) plain += c;
    if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
    return plain;
  }

  std::span<const Route<Handler>> all_;
};

}  // namespace bonsai::server
