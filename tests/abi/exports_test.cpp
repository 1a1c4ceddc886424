// A plugin exports its entry and nothing else, so that two plugins in one process never see each other's symbols.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> built_plugins() {
  std::vector<fs::path> plugins;
  for (const auto &entry : fs::directory_iterator(BONSAI_BINARY_DIR "/lib/bonsai")) {
    if (entry.path().extension() == ".so") plugins.push_back(entry.path());
  }
  return plugins;
}

struct ClosePipe {
  void operator()(FILE *pipe) const { pclose(pipe); }
};

std::string defined_symbols(const fs::path &library) {
  const std::string command = "nm -D --defined-only --format=just-symbols '" + library.string() + "'";
  const std::unique_ptr<FILE, ClosePipe> pipe(popen(command.c_str(), "r"));
  std::string output;
  std::array<char, 256> piece;
  while (pipe && fgets(piece.data(), piece.size(), pipe.get())) output += piece.data();
  return output;
}

TEST(PluginExports, OneSymbolAndNoMore) {
  const std::vector<fs::path> plugins = built_plugins();
  ASSERT_FALSE(plugins.empty());
  for (const fs::path &plugin : plugins) EXPECT_EQ(defined_symbols(plugin), "bonsai_backend_entry\n") << plugin;
}

}  // namespace
