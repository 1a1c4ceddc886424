// A machine on which CUDA cannot be used is told why, in one line, and nothing fails to load.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "plugins/cuda/driver/platform.h"

namespace bonsai::cuda {
namespace {

// Sets variables of the environment for a test, and puts back what was.
class Environment {
 public:
  void set(const std::string &name, const std::string &value) {
    const char *before = std::getenv(name.c_str());
    before_.emplace(name, before ? std::optional<std::string>(before) : std::nullopt);
    setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto &[name, value] : before_) value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

class DriverLoading : public testing::Test {
 protected:
  void SetUp() override { unsetenv("CUDA_VISIBLE_DEVICES"); }

  Platform find(const std::string &library = STUB_DRIVER) {
    return find_platform({.libraries = {library}, .control_node = control_node_});
  }

  Environment environment_;
  std::string control_node_ = "/dev/null";  // that can be opened
};

TEST_F(DriverLoading, NoLibraryIsNoDriver) {
  const Platform platform = find("libcuda-that-is-not-there.so.1");
  EXPECT_FALSE(platform.driver);
  EXPECT_TRUE(platform.devices.empty());
  EXPECT_EQ(
      platform.reason,
      "no NVIDIA driver: libcuda-that-is-not-there.so.1: cannot open shared object file: No such file or directory");
}

TEST_F(DriverLoading, FirstLibraryThatLoadsIsTaken) {
  const Platform platform = find_platform({.libraries = {"libcuda-that-is-not-there.so.1", STUB_DRIVER}});
  EXPECT_TRUE(platform.driver);
  EXPECT_EQ(platform.reason, "");
}

TEST_F(DriverLoading, FileThatIsNoLibraryIsNoDriver) {
  const std::string path = testing::TempDir() + "bonsai-no-library.so";
  std::ofstream(path) << "not an ELF file, but longer than a header of one would have to be, by some bytes";
  const Platform platform = find(path);
  EXPECT_EQ(platform.reason, "no NVIDIA driver: " + path + ": invalid ELF header");
  std::filesystem::remove(path);
}

TEST_F(DriverLoading, LibraryOfOthersIsNoDriver) {
  EXPECT_EQ(find("libm.so.6").reason, "libm.so.6 is no NVIDIA driver: it has no cuDriverGetVersion");
}

TEST_F(DriverLoading, OldDriverSaysBothVersions) {
  environment_.set("STUB_VERSION", "11080");
  EXPECT_EQ(find().reason, "the NVIDIA driver serves CUDA 11.8, expected at least 12.0");
}

// Old drivers lack functions, too; their age is what the user must hear of.
TEST_F(DriverLoading, OldDriverIsCalledOldEvenIfItLacksFunctions) {
  environment_.set("STUB_VERSION", "11080");
  EXPECT_EQ(find(STUB_INCOMPLETE_DRIVER).reason, "the NVIDIA driver serves CUDA 11.8, expected at least 12.0");
}

TEST_F(DriverLoading, OldestAllowedDriverIsTaken) {
  environment_.set("STUB_VERSION", "12000");
  ASSERT_TRUE(find().driver);
  EXPECT_EQ(find().driver->version(), 12000);
}

TEST_F(DriverLoading, MissingFunctionIsNamed) {
  EXPECT_EQ(find(STUB_INCOMPLETE_DRIVER).reason,
            STUB_INCOMPLETE_DRIVER " has no cuGraphUpload, expected a driver for CUDA 12.0 or newer");
}

TEST_F(DriverLoading, DriverThatSeesNoDeviceSaysSo) {
  environment_.set("STUB_INIT", "100");
  const Platform platform = find();
  EXPECT_FALSE(platform.driver);
  EXPECT_EQ(platform.reason, "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected");
}

// Drivers speak of no device where they may not open it.
TEST_F(DriverLoading, ControlNodeThatCannotBeOpenedIsNamed) {
  environment_.set("STUB_INIT", "100");
  control_node_ = "/nonexistent/nvidiactl";
  EXPECT_EQ(find().reason,
            "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected; /nonexistent/nvidiactl: No such file or "
            "directory");
}

TEST_F(DriverLoading, HiddenDevicesAreExplained) {
  environment_.set("STUB_INIT", "100");
  environment_.set("CUDA_VISIBLE_DEVICES", "-1");
  EXPECT_EQ(find().reason,
            "cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected; CUDA_VISIBLE_DEVICES is '-1'");
}

TEST_F(DriverLoading, MismatchOfDriverAndLibraryIsTold) {
  environment_.set("STUB_INIT", "803");
  EXPECT_EQ(
      find().reason,
      "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display driver / cuda driver combination");
}

// Newer drivers have errors that they alone can name; this one cannot.
TEST_F(DriverLoading, ErrorWithoutNameIsANumber) {
  environment_.set("STUB_INIT", "4242");
  EXPECT_EQ(find().reason, "cuInit: CUDA error 4242");
}

TEST_F(DriverLoading, VersionThatIsNotToldIsAReason) {
  environment_.set("STUB_BROKEN", "cuDriverGetVersion");
  EXPECT_EQ(find().reason, "cuDriverGetVersion: CUDA_ERROR_UNKNOWN: unknown error");
}

// Toolkits bring a library of that name which only helps to link, and images often have it in the loader's path.
TEST_F(DriverLoading, StubOfAToolkitIsNoDriver) {
  environment_.set("STUB_BROKEN", "cuDriverGetVersion");
  environment_.set("STUB_ERROR", "34");
  EXPECT_EQ(find().reason, STUB_DRIVER " is a CUDA toolkit's stub, for linking, expected the driver's own library");
}

TEST_F(DriverLoading, NoDevicesAreTold) {
  environment_.set("STUB_CAPABILITIES", "");
  const Platform platform = find();
  EXPECT_TRUE(platform.devices.empty());
  EXPECT_EQ(platform.reason, "the NVIDIA driver reports no device");
}

TEST_F(DriverLoading, OldDevicesAreNamed) {
  environment_.set("STUB_CAPABILITIES", "61,70");
  const Platform platform = find();
  EXPECT_TRUE(platform.devices.empty());
  EXPECT_EQ(platform.reason,
            "Stub 0 has compute capability 6.1, expected at least 7.5; Stub 1 has compute capability 7.0, expected at "
            "least 7.5");
}

TEST_F(DriverLoading, OldDevicesArePassedOver) {
  environment_.set("STUB_CAPABILITIES", "61,90,75");
  const Platform platform = find();
  EXPECT_EQ(platform.reason, "");
  ASSERT_EQ(platform.devices.size(), 2u);
  EXPECT_EQ(platform.devices[0].name, "Stub 1");
  EXPECT_EQ(platform.devices[1].name, "Stub 2");
  EXPECT_EQ(platform.left_out, "Stub 0 has compute capability 6.1, expected at least 7.5");
  environment_.set("STUB_CAPABILITIES", "90,75");
  EXPECT_EQ(find().left_out, "");
  environment_.set("STUB_CAPABILITIES", "61");
  EXPECT_EQ(find().left_out, "");
}

TEST_F(DriverLoading, DeviceIsDescribed) {
  const Platform platform = find();
  ASSERT_EQ(platform.devices.size(), 1u);
  const DeviceDescription &device = platform.devices[0];
  EXPECT_EQ(device.handle, 10);
  EXPECT_EQ(device.name, "Stub 0");
  EXPECT_EQ(device.capability, 90);
  EXPECT_EQ(device.memory_bytes, uint64_t{80} << 30);
  EXPECT_EQ(device.multiprocessors, 132);
  EXPECT_EQ(device.shared_bytes_per_block, uint64_t{227} << 10);
  EXPECT_EQ(device.shared_bytes_per_multiprocessor, uint64_t{228} << 10);
}

TEST_F(DriverLoading, DeviceThatCannotBeDescribedIsAReason) {
  environment_.set("STUB_BROKEN", "cuDeviceGetName");
  const Platform platform = find();
  EXPECT_TRUE(platform.devices.empty());
  EXPECT_EQ(platform.reason,
            "the driver's device 0 cannot be described: cuDeviceGetName: CUDA_ERROR_UNKNOWN: unknown error");
}

TEST_F(DriverLoading, DeviceThatCannotBeDescribedHidesNoOther) {
  environment_.set("STUB_CAPABILITIES", "90,61,75");
  environment_.set("STUB_BROKEN", "cuDeviceGetName");
  environment_.set("STUB_BROKEN_DEVICE", "0");
  const Platform platform = find();
  EXPECT_EQ(platform.reason, "");
  ASSERT_EQ(platform.devices.size(), 1u);
  EXPECT_EQ(platform.devices[0].name, "Stub 2");
  EXPECT_EQ(platform.left_out,
            "the driver's device 0 cannot be described: cuDeviceGetName: CUDA_ERROR_UNKNOWN: unknown error; Stub 1 has "
            "compute "
            "capability 6.1, expected at least 7.5");
  environment_.set("STUB_CAPABILITIES", "90,61");
  EXPECT_EQ(find().reason,
            "the driver's device 0 cannot be described: cuDeviceGetName: CUDA_ERROR_UNKNOWN: unknown error; Stub 1 has "
            "compute "
            "capability 6.1, expected at least 7.5");
}

TEST_F(DriverLoading, DeviceCountThatFailsIsAReason) {
  environment_.set("STUB_BROKEN", "cuDeviceGetCount");
  EXPECT_EQ(find().reason, "cuDeviceGetCount: CUDA_ERROR_UNKNOWN: unknown error");
}

// Whatever this machine has: asked twice, it is the same object, and devices and a reason exclude each other.
TEST(ThisPlatform, IsLookedForOnce) {
  EXPECT_EQ(&platform(), &platform());
  EXPECT_EQ(platform().devices.empty(), !platform().reason.empty());
}

}  // namespace
}  // namespace bonsai::cuda
