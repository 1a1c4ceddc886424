// The plugin carries every kernel file, byte for byte, and every unit that is in the table.
#include "plugins/cuda/compile/source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "plugins/common/failure.h"
#include "plugins/cuda/compile/sha256.h"
#include "plugins/cuda/compile/units.h"

namespace bonsai::cuda {
namespace {

std::map<std::string, std::string> files_of_the_tree() {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(BONSAI_SOURCE_DIR "/plugins/cuda/kernels")) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

TEST(KernelSources, AreThoseOfTheTree) {
  std::map<std::string, std::string> embedded;
  for (const KernelFile &file : kernel_files()) {
    EXPECT_TRUE(embedded.emplace(file.name, file.text).second) << file.name << " is there twice";
    EXPECT_EQ(file.text.data()[file.text.size()], '\0');
    EXPECT_EQ(file.name.data()[file.name.size()], '\0');
    EXPECT_EQ(file.sha256, hex(sha256(file.text))) << file.name;
  }
  const std::map<std::string, std::string> expected = files_of_the_tree();
  for (const auto &[name, text] : expected) {
    ASSERT_TRUE(embedded.contains(name)) << name << " is missing in plugins/cuda/CMakeLists.txt";
    EXPECT_TRUE(embedded[name] == text) << name << " is not the one that was built in";
  }
  EXPECT_EQ(embedded.size(), expected.size());
}

TEST(KernelUnits, HaveNamesOfTheirOwnAndAFile) {
  std::set<std::string> names, files;
  for (const KernelFile &file : kernel_files()) files.emplace(file.name);
  for (const Unit &unit : units()) {
    EXPECT_TRUE(names.insert(unit.name).second) << unit.name << " is there twice";
    EXPECT_TRUE(files.contains(unit.file)) << unit.file;
  }
}

TEST(KernelUnits, CompileEveryFile) {
  std::set<std::string> compiled;
  for (const Unit &unit : units()) compiled.insert(unit.file);
  for (const KernelFile &file : kernel_files()) {
    const bool is_unit = file.name.ends_with(".cu");
    EXPECT_TRUE(!is_unit || compiled.contains(std::string(file.name))) << file.name;
  }
}

TEST(KernelUnits, AreFoundByName) {
  const std::vector<Unit> among = {{.name = "a", .file = "a.cu", .defines = {}, .hot = {}},
                                   {.name = "b", .file = "b.cu", .defines = {}, .hot = {}}};
  EXPECT_EQ(find_unit(among, "b").file, "b.cu");
  try {
    find_unit(among, "c");
    FAIL() << "nothing was thrown";
  } catch (const plugin::Failure &failure) {
    EXPECT_EQ(failure.status(), BONSAI_INTERNAL);
    EXPECT_STREQ(failure.what(), "there is no unit of kernels named c");
  }
}

}  // namespace
}  // namespace bonsai::cuda
