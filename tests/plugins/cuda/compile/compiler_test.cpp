// The compiler is told what the kernels rely on, its errors are one line, and a key covers all that its work depends
// on.
#include "plugins/cuda/compile/compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "plugins/common/failure.h"

namespace bonsai::cuda {
namespace {

const Architecture kHopper = {"sm_90a"};
const Architecture kNewer = {"compute_90"};

constexpr KernelFile kFiles[] = {
    {"broken.cu", "extern \"C\" __global__ void broken() {\n  int unused;\n  nonsense();\n}\n"},
    {"good.cu",
     "#include \"good.cuh\"\nextern \"C\" __global__ void good(float *x, float y) { *x = *x * y + TERM; }\n"},
    {"good.cuh", "float add(float a, float b) { return a + b; }\n"},
    {"other.cu", "extern \"C\" __global__ void other() {}\n"},
};
const Unit kGood = {.name = "good.2", .file = "good.cu", .defines = {"TERM=2.0f"}, .hot = {}};
const Unit kBroken = {.name = "broken", .file = "broken.cu", .defines = {}, .hot = {}};

CompileJob job_of(const Unit &unit, const Architecture &architecture = kHopper) {
  return {.unit = unit, .architecture = architecture, .files = kFiles};
}

TEST(KernelOptions, AreThoseThatNumericsRelyOn) {
  EXPECT_EQ(compile_options(job_of(kGood)),
            (std::vector<std::string>{"-std=c++20", "-fmad=false", "-default-device", "-arch=sm_90a", "-DTERM=2.0f"}));
}

TEST(KernelKeys, CoverOptionsFilesAndHeaders) {
  const std::string digest = hex(digest_of(job_of(kGood)));
  EXPECT_EQ(hex(digest_of(job_of(kGood))), digest);
  EXPECT_NE(hex(digest_of(job_of(kGood, kNewer))), digest);
  Unit other = kGood;
  other.defines = {"TERM=3.0f"};
  EXPECT_NE(hex(digest_of(job_of(other))), digest);
  for (const size_t changed : {1, 2}) {
    std::vector<KernelFile> files(std::begin(kFiles), std::end(kFiles));
    files[changed].text = "// changed\n";
    EXPECT_NE(hex(digest_of({.unit = kGood, .architecture = kHopper, .files = files})), digest) << files[changed].name;
  }
}

// Else every change of one kernel would compile all of them anew.
TEST(KernelKeys, DoNotCoverOtherUnits) {
  std::vector<KernelFile> files(std::begin(kFiles), std::end(kFiles));
  files[3].text = "// changed\n";
  EXPECT_EQ(hex(digest_of({.unit = kGood, .architecture = kHopper, .files = files})), hex(digest_of(job_of(kGood))));
}

TEST(KernelKeys, NeedTheUnitsFile) {
  const Unit unit = {.name = "missing", .file = "missing.cu", .defines = {}, .hot = {}};
  try {
    digest_of(job_of(unit));
    FAIL() << "nothing was thrown";
  } catch (const plugin::Failure &failure) {
    EXPECT_EQ(failure.status(), BONSAI_INTERNAL);
    EXPECT_STREQ(failure.what(), "no kernel file missing.cu");
  }
}

class Compiling : public testing::Test {
 protected:
  void SetUp() override {
    if (!found_.nvrtc) GTEST_SKIP() << found_.reason;
  }
  const Nvrtc &nvrtc() const { return *found_.nvrtc; }

 private:
  NvrtcResult found_ = NvrtcSearch(nvrtc_candidates(0)).proved();
};

TEST_F(Compiling, MakesPtxAndCubin) {
  const Binary binary = compile(nvrtc(), job_of(kGood));
  EXPECT_NE(binary.ptx.find(".target sm_90a"), std::string::npos);
  EXPECT_TRUE(
      binary.cubin.starts_with("\x7f"
                               "ELF"));
  // A multiplication, then an addition: no fused one that the source does not ask for.
  EXPECT_EQ(binary.ptx.find("fma"), std::string::npos);
  EXPECT_NE(binary.ptx.find("mul.rn.f32"), std::string::npos);
}

TEST_F(Compiling, MakesPtxAloneForNewerDevices) {
  const Binary binary = compile(nvrtc(), job_of(kGood, kNewer));
  EXPECT_NE(binary.ptx.find(".target sm_90"), std::string::npos);
  EXPECT_EQ(binary.cubin, "");
}

TEST_F(Compiling, ErrorIsItsFirstLine) {
  std::string log;
  try {
    compile(nvrtc(), job_of(kBroken), &log);
    FAIL() << "nothing was thrown";
  } catch (const plugin::Failure &failure) {
    EXPECT_EQ(failure.status(), BONSAI_INTERNAL);
    EXPECT_STREQ(failure.what(),
                 "broken does not compile for sm_90a: NVRTC_ERROR_COMPILATION: broken.cu(3): error: identifier "
                 "\"nonsense\" is undefined");
  }
  EXPECT_GT(std::count(log.begin(), log.end(), '\n'), 3);
}

TEST_F(Compiling, UnknownArchitectureIsTold) {
  const Architecture unknown = {"sm_77"};
  try {
    compile(nvrtc(), job_of(kGood, unknown));
    FAIL() << "nothing was thrown";
  } catch (const plugin::Failure &failure) {
    EXPECT_STREQ(failure.what(),
                 "good.2 does not compile for sm_77: NVRTC_ERROR_INVALID_OPTION: nvrtc: error: invalid value for "
                 "--gpu-architecture (-arch)");
  }
}

TEST_F(Compiling, IsTheSameOnManyThreads) {
  const Binary expected = compile(nvrtc(), job_of(kGood));
  std::vector<Binary> found(8);
  {
    std::vector<std::jthread> threads;
    for (Binary &binary : found) threads.emplace_back([&] { binary = compile(nvrtc(), job_of(kGood)); });
  }
  for (const Binary &binary : found) {
    EXPECT_EQ(binary.ptx, expected.ptx);
    EXPECT_EQ(binary.cubin, expected.cubin);
  }
}

}  // namespace
}  // namespace bonsai::cuda
