// The fake NVRTC complains where the real one would.
#include <algorithm>

#include "plugins/cuda/compile/compiler.h"
#include "tests/plugins/cuda/fake_driver/fake_fixture.h"

namespace bonsai::fake {
namespace {

class FakeNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    const cuda::NvrtcResult result = cuda::NvrtcSearch({BONSAI_FAKE_NVRTC}).proved();
    ASSERT_TRUE(result.nvrtc) << result.reason;
    nvrtc = result.nvrtc;
  }

  // What compiling an embedded file among these says.
  std::string failure_of(const cuda::Unit &unit, const cuda::CompileJob &job) {
    try {
      cuda::compile(*nvrtc, job);
    } catch (const plugin::Failure &failure) {
      return failure.what();
    }
    return unit.name + " compiles";
  }

  const cuda::Unit unit{.name = "a", .file = "a.cu", .defines = {"BONSAI_FORMAT=Q4_0"}, .hot = {}};
  const cuda::Architecture architecture{"sm_80"};
  std::shared_ptr<const cuda::Nvrtc> nvrtc;
};

TEST_F(FakeNvrtc, ImagesNameTheUnitAsTheEmulatorDoes) {
  const std::vector<cuda::KernelFile> files = {{"a.cu", "#include \"b.cuh\"\n"}, {"b.cuh", "#pragma once\n"}};
  const cuda::Binary binary =
      cuda::compile(*nvrtc, {.unit = unit, .architecture = architecture, .files = files, .extra_options = {}});
  for (const std::string &text : {binary.ptx, binary.cubin.substr(0, binary.cubin.find('\0'))}) {
    const auto image = parse_image(text);
    ASSERT_TRUE(image.has_value()) << text;
    EXPECT_EQ(image->unit, "a.cu BONSAI_FORMAT=Q4_0");
    EXPECT_EQ(image->architecture, "sm_80");
    EXPECT_EQ(image->compiler, 13000);
  }
}

TEST_F(FakeNvrtc, HeadersAreThoseThatCameWithTheProgram) {
  const std::vector<cuda::KernelFile> files = {{"a.cu", "#include \"b.cuh\"\n"},
                                               {"b.cuh",
                                                "#ifdef __CUDACC_RTC__\n#include \"c.h\"\n#else\n"
                                                "#include <cstdint>\n#endif\n"}};
  EXPECT_EQ(failure_of(unit, {.unit = unit, .architecture = architecture, .files = files, .extra_options = {}}),
            "a does not compile for sm_80: NVRTC_ERROR_COMPILATION: b.cuh: catastrophic error: cannot open source file "
            "\"c.h\"");
}

TEST_F(FakeNvrtc, OptionsAreNvrtcs) {
  const std::vector<cuda::KernelFile> files = {{"a.cu", ""}};
  EXPECT_EQ(failure_of(unit, {.unit = unit, .architecture = architecture, .files = files, .extra_options = {"-O3"}}),
            "a does not compile for sm_80: NVRTC_ERROR_INVALID_OPTION: nvrtc: error: unrecognized option -O3 found");
  const cuda::Architecture unknown{"sm_81"};
  EXPECT_EQ(failure_of(unit, {.unit = unit, .architecture = unknown, .files = files, .extra_options = {}}),
            "a does not compile for sm_81: NVRTC_ERROR_INVALID_OPTION: nvrtc: error: invalid value for "
            "--gpu-architecture (-arch): sm_81");
}

using FakeExitDeathTest = FakeDriver;

TEST_F(FakeExitDeathTest, StrictProgramsFailForWhatTheyLeaveAlive) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, which reads the environment anew
  setenv("BONSAI_FAKE_CUDA_STRICT", "1", 1);
  EXPECT_EXIT(std::exit(0), testing::ExitedWithCode(86), "still alive: 1 contexts, 1 pushed contexts, 1 streams");
  unsetenv("BONSAI_FAKE_CUDA_STRICT");
  EXPECT_EXIT(std::exit(0), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bonsai::fake
