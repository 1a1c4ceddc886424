// The plugin loads wherever the host does: it links nothing of NVIDIA's.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

struct ClosePipe {
  void operator()(FILE *pipe) const { pclose(pipe); }
};

// The sonames of the libraries that a library asks for.
std::vector<std::string> needed_by(const std::string &library) {
  const std::string command = "readelf --dynamic --wide '" + library + "'";
  const std::unique_ptr<FILE, ClosePipe> pipe(popen(command.c_str(), "r"));
  std::vector<std::string> needed;
  std::array<char, 512> line;
  while (pipe && fgets(line.data(), line.size(), pipe.get())) {
    const std::string text = line.data();
    const size_t start = text.find('['), end = text.find(']');
    if (text.find("(NEEDED)") != std::string::npos) needed.push_back(text.substr(start + 1, end - start - 1));
  }
  return needed;
}

TEST(CudaPlugin, LinksNothingOfCudas) {
  const std::vector<std::string> needed = needed_by(BONSAI_CUDA_PLUGIN);
  ASSERT_FALSE(needed.empty());
  for (const std::string &library : needed) {
    EXPECT_FALSE(library.starts_with("libcu") || library.starts_with("libnv")) << library;
  }
}

}  // namespace
