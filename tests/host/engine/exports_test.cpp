// What the shared library shows to the world.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
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

TEST(SharedLibrary, ExportsThePublicApiAndNothingElse) {
  const std::string symbols = output_of("nm -D -C --defined-only " BONSAI_BINARY_DIR "/lib/libbonsai.so.0 2>&1");
  std::istringstream lines(symbols);
  int n_api = 0;
  for (std::string address, type, name; lines >> address >> type && std::getline(lines >> std::ws, name);) {
    const bool is_ours = name.find("bonsai::") != std::string::npos;
    const bool is_inner = name.find("bonsai::host::") == 0 || name.find("bonsai::text::") == 0 ||
                          name.find("bonsai::gguf::") == 0 || name.find("bonsai::model::") == 0;
    EXPECT_TRUE(is_ours && !is_inner) << name;
    n_api += name.find("bonsai::Engine::") == 0 || name.find("bonsai::Session::") == 0;
  }
  EXPECT_GE(n_api, 15) << symbols;
}

}  // namespace
}  // namespace bonsai
