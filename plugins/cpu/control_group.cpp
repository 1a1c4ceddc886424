#include "plugins/cpu/control_group.h"

#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace bonsai::cpu {
namespace {

// The path of the group below the root, "/" for the root itself; empty where there is none. One line of the file has
// the only group of version 2, "0::PATH".
std::string own_path(const std::string &membership) {
  constexpr std::string_view kVersion2 = "0::";
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kVersion2)) return line.substr(kVersion2.size());
  return {};
}

}  // namespace

std::vector<std::string> control_groups(const std::string &root, const std::string &membership) {
  const std::string path = own_path(membership);
  // Of a group outside the part of the tree that is seen here the path goes up.
  const bool is_below = path.starts_with('/') && path.find("/..") == std::string::npos;
  std::vector<std::string> groups;
  std::error_code error;
  if (is_below && std::filesystem::is_directory(root + path, error)) {
    for (std::string below = path; below.size() > 1; below.resize(below.rfind('/'))) groups.push_back(root + below);
  }
  groups.push_back(root);
  return groups;
}

}  // namespace bonsai::cpu
