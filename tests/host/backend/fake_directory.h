// A directory of its own for a test, to put fake backends and other files in.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace bonsai::test {

class FakeDirectory {
 public:
  FakeDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "bonsai-backends-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "cannot make " << pattern;
    path_ = pattern;
  }
  FakeDirectory(const FakeDirectory &) = delete;
  FakeDirectory &operator=(const FakeDirectory &) = delete;
  ~FakeDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path &path() const { return path_; }
  std::string text() const { return path_.string(); }

  // Copies the fake backend `fake` here, as libbonsai_NAME.so.
  std::filesystem::path add(const std::string &fake, const std::string &name) const {
    const std::filesystem::path to = path_ / ("libbonsai_" + name + ".so");
    std::filesystem::copy_file(built(fake), to);
    return to;
  }
  std::filesystem::path add(const std::string &fake) const { return add(fake, fake); }

  std::filesystem::path write(const std::string &file, const std::string &content) const {
    std::ofstream(path_ / file, std::ios::binary) << content;
    return path_ / file;
  }

  static std::filesystem::path built(const std::string &fake) {
    return std::filesystem::path(BONSAI_BINARY_DIR) / "tests" / "backends" / ("libbonsai_" + fake + ".so");
  }

 private:
  std::filesystem::path path_;
};

}  // namespace bonsai::test
