#include "core/base/control_group.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace bonsai {
namespace {

// One line of /proc/self/cgroup, "ID:CONTROLLERS:PATH": the hierarchy of version 2 has no controllers there, those of
// version 1 have some, with commas between.
struct Membership {
  std::string controllers, path;  // "/" for the root itself

  bool has(std::string_view controller) const {
    std::string_view rest = controllers;
    for (size_t comma; (comma = rest.find(',')) != rest.npos; rest.remove_prefix(comma + 1))
      if (rest.substr(0, comma) == controller) return true;
    return rest == controller;
  }
};

std::vector<Membership> read_memberships(const std::string &file_name) {
  std::vector<Membership> memberships;
  std::ifstream file(file_name);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    memberships.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return memberships;
}

// Of a group outside the part of the tree that is seen here the path goes up.
void append_groups(const std::string &root, const std::string &path, std::vector<std::string> &groups) {
  const bool is_below = path.starts_with('/') && path.find("/..") == std::string::npos;
  std::error_code error;
  if (is_below && std::filesystem::is_directory(root + path, error)) {
    for (std::string below = path; below.size() > 1; below.resize(below.rfind('/'))) groups.push_back(root + below);
  }
  groups.push_back(root);
}

}  // namespace

std::vector<std::string> control_groups(const std::string &root, const std::string &membership) {
  const std::vector<Membership> memberships = read_memberships(membership);
  const auto find = [&](const auto &is_of) { return std::find_if(memberships.begin(), memberships.end(), is_of); };
  std::vector<std::string> groups;
  const auto own = find([](const Membership &of) { return of.controllers.empty(); });
  append_groups(root, own == memberships.end() ? "" : own->path, groups);
  for (const std::string controller : {"cpu", "memory"}) {
    const auto of_version_1 = find([&](const Membership &of) { return of.has(controller); });
    if (of_version_1 != memberships.end()) append_groups(root + "/" + controller, of_version_1->path, groups);
  }
  return groups;
}

}  // namespace bonsai
