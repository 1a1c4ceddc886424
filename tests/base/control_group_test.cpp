// Limits of control groups as containers and units of systemd have them: in made-up folders.
#include "core/base/control_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/available_cores.h"
#include "core/base/machine_memory.h"

namespace bonsai {
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
  for (const char *membership : {"", "0::/\n", "0::/docker/1234\n", "0::/../other\n", "4:pids:/system.slice\n"})
    EXPECT_EQ(groups(membership), root) << membership;
  EXPECT_EQ(control_groups(root_, "/nowhere"), root);
}

// Each controller has a tree of its own, or shares one with others.
TEST_F(ControlGroups, OfVersion1AreThoseOfTheirControllers) {
  std::filesystem::create_directories(root_ + "/cpu/unit");
  std::filesystem::create_directories(root_ + "/memory/slice/unit");
  const std::vector<std::string> all = {root_,
                                        root_ + "/cpu/unit",
                                        root_ + "/cpu",
                                        root_ + "/memory/slice/unit",
                                        root_ + "/memory/slice",
                                        root_ + "/memory"};
  const std::string memberships =
      "9:name=systemd:/x\n5:cpuset:/memory\n4:memory:/slice/unit\n2:cpu,cpuacct:/unit\n0::/\n";
  EXPECT_EQ(groups(memberships), all);
  const std::vector<std::string> roots = {root_, root_ + "/cpu", root_ + "/memory"};
  EXPECT_EQ(groups("4:memory:/docker/1234\n2:cpu,cpuacct:/docker/1234\n"), roots) << "a container's";

  const int every = available_cores({});
  write("cpu/unit/cpu.cfs_period_us", "100000\n");
  write("cpu/unit/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(available_cores(groups(memberships)), every);
  write("cpu/unit/cpu.cfs_quota_us", "70000\n");
  EXPECT_EQ(available_cores(groups(memberships)), 1);

  write("memory/slice/memory.limit_in_bytes", "8000000\n");
  write("memory/slice/memory.usage_in_bytes", "7000000\n");
  write("memory/slice/memory.stat", "inactive_file 1\ntotal_inactive_file 500000\ntotal_active_file 1500000\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/memory.usage_in_bytes", "7000000\n");
  const MachineMemory memory = machine_memory(groups(memberships));
  EXPECT_EQ(memory.total_bytes, 8'000'000u);
  EXPECT_EQ(memory.free_bytes, 3'000'000u);
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
}  // namespace bonsai
