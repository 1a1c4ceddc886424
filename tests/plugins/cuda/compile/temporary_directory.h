// A directory for one test, and being an ordinary user for as long as one lasts.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace bonsai::cuda {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(testing::TempDir() + "bonsai-cache-XXXXXX") {
    if (!mkdtemp(path_.data())) std::abort();
  }
  ~TemporaryDirectory() {
    for (const auto &entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (entry.is_directory()) chmod(entry.path().c_str(), 0700);  // a test may have taken the right to remove files
    }
    std::filesystem::remove_all(path_);
  }
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

inline constexpr uid_t kNobody = 65534;

// Root may write everything: what must fail is tried as somebody else, who gets the directories that are named.
class OrdinaryUser {
 public:
  explicit OrdinaryUser(std::initializer_list<std::string> directories) : was_root_(geteuid() == 0) {
    if (!was_root_) return;
    for (const std::string &directory : directories) {
      if (chown(directory.c_str(), kNobody, static_cast<gid_t>(-1)) != 0) std::abort();
    }
    if (seteuid(kNobody) != 0) std::abort();
  }
  ~OrdinaryUser() {
    if (was_root_ && seteuid(0) != 0) std::abort();
  }
  OrdinaryUser(const OrdinaryUser &) = delete;
  OrdinaryUser &operator=(const OrdinaryUser &) = delete;

 private:
  bool was_root_;
};

}  // namespace bonsai::cuda
