// Headers and tables as texts, for tests of what is written in them.
#pragma once

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace bonsai::test {

inline std::string read_file(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Each line's part after `prefix` up to `end`, of the lines that begin with `prefix`.
inline std::vector<std::string> after(const std::string &text, const std::string &prefix, const std::string &end) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(prefix))
      found.push_back(line.substr(prefix.size(), line.find(end, prefix.size()) - prefix.size()));
  }
  return found;
}

// The structs that a header lays open; handles, which are never looked into, are not among them.
inline std::vector<std::string> open_structs(const std::string &header) {
  std::vector<std::string> names = after(header, "typedef struct ", " ");
  std::erase_if(names, [&header](const std::string &name) {
    return header.find("typedef struct " + name + " {") == std::string::npos;
  });
  return names;
}

// All of the project's names outside of comments: types, functions, constants and macros.
inline std::set<std::string> names_in(std::string header) {
  for (size_t begin; (begin = header.find("/*")) != std::string::npos;)
    header.erase(begin, header.find("*/", begin) + 2 - begin);
  static const std::regex name("(bonsai|BONSAI)_\\w+");
  std::set<std::string> names;
  for (std::sregex_iterator found(header.begin(), header.end(), name), end; found != end; ++found)
    names.insert(found->str());
  return names;
}

}  // namespace bonsai::test
