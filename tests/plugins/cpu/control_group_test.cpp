// Limits of control groups as containers and units of systemd have them: in made-up folders.
#include "plugins/cpu/control_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "plugins/cpu/machine_memory.h"
#include "plugins/cpu/threads.h"

namespace bonsai::cpu {
namespace {

class ControlGroups : public testing::Test {
 protected:
  ControlGroups() { std::filesystem::create_directories(root_ + "/system.slice/bonsai.service"); }
  ~ControlGroups() override { std::filesystem::remove_all(root_); }

  void write(const std::string &file, const std::string &text) const { std::ofstream(root_ + "/" + file) << text; }
  std::vector<std::string> groups(const std::string &membership) const {
    write("membership", membership);
    return control_groups(root_, root_ + "/membership");
  }

  const std::string root_ =
      testing::TempDir() + "bonsai-control-groups-" + testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string unit_ = "0::/system.slice/bonsai.service\n";
};

TEST_F(ControlGroups, AreTheOwnOneAndThoseAroundIt) {
  const std::vector<std::string> all = {root_ + "/system.slice/bonsai.service", root_ + "/system.slice", root_};
  EXPECT_EQ(groups("1:name=other:/x\n" + unit_), all);
}

TEST_F(ControlGroups, AreTheRootWhereThePathMeansNothing) {
  const std::vector<std::string> root = {root_};
  for (const char *membership : {"", "0::/\n", "0::/docker/1234\n", "0::/../other\n", "4:memory:/system.slice\n"})
    EXPECT_EQ(groups(membership), root) << membership;
  EXPECT_EQ(control_groups(root_, "/nowhere"), root);
}

TEST_F(ControlGroups, TheLeastOfTheirQuotasCounts) {
  const int all = available_cores({});
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(available_cores(groups(unit_)), all);
  write("system.slice/cpu.max", "50000 100000\n");
  EXPECT_EQ(available_cores(groups(unit_)), 1);
  write("system.slice/bonsai.service/cpu.max", "900000000 100000\n");
  EXPECT_EQ(available_cores(groups(unit_)), 1);
  write("system.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(available_cores(groups(unit_)), all);
}

TEST_F(ControlGroups, OfMemoryEachLeavesWhatItHas) {
  write("system.slice/memory.max", "8000000\n");
  write("system.slice/memory.current", "7000000\n");
  write("system.slice/memory.stat", "");
  write("system.slice/bonsai.service/memory.max", "4000000\n");
  write("system.slice/bonsai.service/memory.current", "2000000\n");
  write("system.slice/bonsai.service/memory.stat", "inactive_file 500000\n");
  const MachineMemory memory = machine_memory(groups(unit_));
  EXPECT_EQ(memory.total_bytes, 4'000'000u);
  EXPECT_EQ(memory.free_bytes, 1'000'000u) << "what the group around it leaves";
}

}  // namespace
}  // namespace bonsai::cpu
