#include "core/base/machine_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace bonsai {
namespace {

// A control group's files, in a folder of its own.
class ControlGroup {
 public:
  ControlGroup(const std::string &most, const std::string &used, const std::string &statistics) {
    std::filesystem::create_directory(path_);
    std::ofstream(path_ + "/memory.max") << most << '\n';
    std::ofstream(path_ + "/memory.current") << used << '\n';
    std::ofstream(path_ + "/memory.stat") << statistics;
  }
  ~ControlGroup() { std::filesystem::remove_all(path_); }
  const std::string &path() const { return path_; }

 private:
  std::string path_ =
      ::testing::TempDir() + "bonsai-control-group-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(MachineMemory, IsTheMachinesWithoutALimit) {
  const MachineMemory whole = machine_memory({"/nowhere"});
  EXPECT_GT(whole.total_bytes, whole.free_bytes);
  EXPECT_GT(whole.free_bytes, 0u);
  const ControlGroup group("max", "1000", "");
  EXPECT_EQ(machine_memory({group.path()}).total_bytes, whole.total_bytes);
}

// What a limit leaves is some megabytes, so that any machine has as much.
TEST(MachineMemory, OfALimitIsWhatPagesOfFilesCanMakeRoomFor) {
  const ControlGroup group("8000000", "5000000",
                           "anon 1000000\nfile 4000000\ninactive_file 3000000\nactive_file 500000\n");
  const MachineMemory memory = machine_memory({group.path()});
  EXPECT_EQ(memory.total_bytes, 8'000'000u);
  EXPECT_EQ(memory.free_bytes, 6'500'000u);
}

TEST(MachineMemory, IsNeverLessThanNone) {
  const ControlGroup group("4000000", "5000000", "inactive_file 100\n");
  EXPECT_EQ(machine_memory({group.path()}).free_bytes, 0u);
  const ControlGroup odd("4000000", "1000", "inactive_file 5000\n");
  EXPECT_EQ(machine_memory({odd.path()}).free_bytes, 4'000'000u);
}

}  // namespace
}  // namespace bonsai
