// What the shared library shows to the world.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace bonsai {
namespace {

std::string output_of(const std::string &command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::string text;
  std::array<char, 4096> piece;
  while (const size_t n = std::fread(piece.data(), 1, piece.size(), pipe.get())) text.append(piece.data(), n);
  return text;
}

using Names = std::set<std::string>;

// Of the functions that the header declares for C.
Names declared_names() {
  std::ifstream file(BONSAI_SOURCE_DIR "/host/include/bonsai/bonsai.h");
  const std::string header{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::regex declaration("\nBONSAI_C_API [^;(]*\\b(bonsai_\\w+)\\(");
  Names names;
  for (std::sregex_iterator at(header.begin(), header.end(), declaration), end; at != end; ++at) names.insert((*at)[1]);
  return names;
}

TEST(SharedLibrary, ExportsThePublicApisAndNothingElse) {
  const std::string symbols = output_of("nm -D -C --defined-only '" BONSAI_BINARY_DIR "/lib/libbonsai.so' 2>&1");
  std::istringstream lines(symbols);
  Names for_c;
  int n_api = 0;
  for (std::string address, type, name; lines >> address >> type && std::getline(lines >> std::ws, name);) {
    if (name.starts_with("bonsai_")) {
      for_c.insert(name);
      continue;
    }
    const bool is_ours = name.find("bonsai::") != std::string::npos;
    const bool is_inner = name.find("bonsai::host::") == 0 || name.find("bonsai::text::") == 0 ||
                          name.find("bonsai::gguf::") == 0 || name.find("bonsai::model::") == 0;
    EXPECT_TRUE(is_ours && !is_inner) << name;
    n_api += name.find("bonsai::Engine::") == 0 || name.find("bonsai::Session::") == 0;
  }
  EXPECT_GE(n_api, 15) << symbols;
  EXPECT_EQ(for_c, declared_names());
  EXPECT_GE(for_c.size(), 36u);
}

}  // namespace
}  // namespace bonsai
