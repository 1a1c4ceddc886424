// Kernels are compiled once, then come from the cache; what a driver refuses is replaced; what cannot be had is told.
#include "plugins/cuda/compile/library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>

#include "tests/plugins/cuda/compile/temporary_directory.h"
#include "tests/plugins/cuda/driver/fake_functions.h"

namespace bonsai::cuda {
namespace {

constexpr KernelFile kFiles[] = {{"a.cu", "a"}, {"b.cu", "b"}, {"broken.cu", "broken"}, {"c.cu", "c"}};

std::vector<Unit> make_units() {
  std::vector<Unit> units;
  for (const char *name : {"a", "b", "broken", "c"}) {
    units.push_back({.name = name, .file = std::string(name) + ".cu", .defines = {}, .hot = {}});
  }
  return units;
}
const std::vector<Unit> kUnits = make_units();

// A compiler that copies: a program is its text.
std::atomic<int> n_compiled = 0;

std::string made_of(nvrtcProgram program, const char *kind) {
  return std::string("code: ") + kind + " of " + *reinterpret_cast<std::string *>(program);
}

std::string ptx_of(nvrtcProgram program) {
  return made_of(program, "ptx") +
         "\n// .entry no_kernel(\n.visible .entry kernel(\n\t.param .align 8 .b8 kernel_param_0[56]\n)\n" +
         ".entry second(\n";
}

const char *log_of(nvrtcProgram program) {
  return *reinterpret_cast<std::string *>(program) == "broken" ? "warning: dull\nbroken.cu(1): error: no sense\n" : "";
}

nvrtcResult create(nvrtcProgram *program, const char *text, const char *, int, const char *const *,
                   const char *const *) {
  *program = reinterpret_cast<nvrtcProgram>(new std::string(text));
  return NVRTC_SUCCESS;
}

nvrtcResult destroy(nvrtcProgram *program) {
  delete reinterpret_cast<std::string *>(*program);
  return NVRTC_SUCCESS;
}

nvrtcResult compile_fake(nvrtcProgram program, int, const char *const *) {
  ++n_compiled;
  return log_of(program)[0] ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}

std::shared_ptr<const Nvrtc> make_nvrtc(int version) {
  auto nvrtc = std::make_shared<Nvrtc>();
  nvrtc->version = version;
  nvrtc->architectures = {75, 80, 90};
  nvrtc->nvrtcGetErrorString = [](nvrtcResult) { return "NVRTC_ERROR_COMPILATION"; };
  nvrtc->nvrtcCreateProgram = create;
  nvrtc->nvrtcDestroyProgram = destroy;
  nvrtc->nvrtcCompileProgram = compile_fake;
  nvrtc->nvrtcGetProgramLogSize = [](nvrtcProgram program, size_t *bytes) {
    return *bytes = std::strlen(log_of(program)) + 1, NVRTC_SUCCESS;
  };
  nvrtc->nvrtcGetProgramLog = [](nvrtcProgram program, char *log) {
    return std::strcpy(log, log_of(program)), NVRTC_SUCCESS;
  };
  nvrtc->nvrtcGetPTXSize = [](nvrtcProgram program, size_t *bytes) {
    return *bytes = ptx_of(program).size() + 1, NVRTC_SUCCESS;
  };
  nvrtc->nvrtcGetPTX = [](nvrtcProgram program, char *ptx) {
    return std::strcpy(ptx, ptx_of(program).c_str()), NVRTC_SUCCESS;
  };
  nvrtc->nvrtcGetCUBINSize = [](nvrtcProgram program, size_t *bytes) {
    return *bytes = made_of(program, "cubin").size(), NVRTC_SUCCESS;
  };
  nvrtc->nvrtcGetCUBIN = [](nvrtcProgram program, char *cubin) {
    const std::string made = made_of(program, "cubin");
    return std::memcpy(cubin, made.data(), made.size()), NVRTC_SUCCESS;
  };
  return nvrtc;
}

// Of NVRTC, and of the driver that tests have.
constexpr int kVersion = 12040, kNewerVersion = 13000;

class KernelLibraries : public testing::Test {
 protected:
  void SetUp() override { n_compiled = 0; }
  void TearDown() override { EXPECT_EQ(fake_.bad_frees, 0); }

  LibraryConfig config() {
    return {.capability = 90,
            .nvrtc = {make_nvrtc(kVersion), ""},
            .cache_directory = path_,
            .log =
                [this](bonsai_log_level, const std::string &line) {
                  const std::lock_guard lock(mutex_);
                  lines_.push_back(line);
                },
            .units = kUnits,
            .files = kFiles};
  }
  LibraryConfig with_newer_nvrtc() {
    LibraryConfig newer = config();
    newer.nvrtc.nvrtc = make_nvrtc(kNewerVersion);
    return newer;
  }
  LibraryConfig without_nvrtc() {
    LibraryConfig none = config();
    none.nvrtc = {nullptr, "NVRTC is not found, looked for libnvrtc.so.13"};
    return none;
  }

  // Prepares units in a library of its own, as the next start of the program would.
  void start(const std::vector<std::string> &units, std::optional<LibraryConfig> config_of_start = std::nullopt) {
    KernelLibrary library(context_, config_of_start ? *config_of_start : config());
    library.prepare(units);
  }
  Failure failure_of(const std::vector<std::string> &units, std::optional<LibraryConfig> of_start = std::nullopt) {
    try {
      start(units, of_start);
    } catch (const Failure &failure) {
      return failure;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Failure(BONSAI_OK, "");
  }
  long loads() const { return std::count(fake_.calls.begin(), fake_.calls.end(), "cuModuleLoadDataEx"); }
  std::string only_file() const { return std::filesystem::directory_iterator(path_)->path(); }

  FakeDriver fake_;
  Context context_{fake_.driver, 0};
  CurrentContext current_{context_};
  TemporaryDirectory temporary_;
  std::string path_ = temporary_.path() + "/kernels";
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_F(KernelLibraries, CompileOnceAndTellHowFarTheyAre) {
  start({"a", "b", "c"});
  EXPECT_EQ(n_compiled, 3);
  std::sort(lines_.begin(), lines_.end());
  EXPECT_EQ(lines_, (std::vector<std::string>{"cuda: compiling kernels for sm_90a, 1 of 3",
                                              "cuda: compiling kernels for sm_90a, 2 of 3",
                                              "cuda: compiling kernels for sm_90a, 3 of 3"}));
  lines_.clear();
  start({"a", "b", "c"});
  EXPECT_EQ(n_compiled, 3);
  EXPECT_TRUE(lines_.empty());
  EXPECT_EQ(loads(), 6);
}

TEST_F(KernelLibraries, CompileAtEveryStartWithoutACache) {
  LibraryConfig off = config();
  off.cache_directory = "";
  start({"a"}, off);
  start({"a"}, off);
  EXPECT_EQ(n_compiled, 2);
}

TEST_F(KernelLibraries, PrepareAUnitOnce) {
  KernelLibrary library(context_, config());
  library.prepare(std::vector<std::string>{"a", "b", "a"});
  library.prepare(std::vector<std::string>{"b", "a"});
  EXPECT_EQ(n_compiled, 2);
  EXPECT_EQ(loads(), 2);
}

// Drivers that load lazily bring a kernel's code to the device when it is asked for.
TEST_F(KernelLibraries, HaveAllKernelsOfAUnitOnTheDeviceWhenItIsReady) {
  const auto asked_for = [&] { return std::count(fake_.calls.begin(), fake_.calls.end(), "cuModuleGetFunction"); };
  for (const bool is_kept : {false, true}) {
    SCOPED_TRACE(is_kept);
    fake_.calls.clear();
    KernelLibrary library(context_, config());
    library.prepare(std::vector<std::string>{"a"});
    EXPECT_EQ(asked_for(), 2);
    EXPECT_EQ(library.function("a", "kernel").name(), "kernel");
    EXPECT_EQ(library.function("a", "second").name(), "second");
    EXPECT_EQ(asked_for(), 2);
  }
}

TEST_F(KernelLibraries, TellThatThereIsNoMemoryForAKernelWhenAUnitIsMadeReady) {
  KernelLibrary library(context_, config());
  fake_.result = CUDA_ERROR_OUT_OF_MEMORY;
  fake_.failing = "cuFuncGetAttribute";
  try {
    library.prepare(std::vector<std::string>{"a"});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Failure &failure) {
    EXPECT_EQ(failure.status(), BONSAI_OUT_OF_MEMORY);
  }
  fake_.result = CUDA_SUCCESS;
  EXPECT_NO_THROW(library.prepare(std::vector<std::string>{"a"}));
  EXPECT_EQ(loads(), 2);
}

TEST_F(KernelLibraries, FindFunctionsOnce) {
  KernelLibrary library(context_, config());
  const Function &function = library.function("a", "kernel");
  EXPECT_EQ(function.name(), "kernel");
  EXPECT_EQ(&library.function("a", "kernel"), &function);
  EXPECT_NE(&library.function("a", "another"), &function);
  EXPECT_NE(&library.function("b", "kernel"), &function);
  EXPECT_EQ(loads(), 2);
}

TEST_F(KernelLibraries, CompileDamagedEntriesAnew) {
  start({"a"});
  std::filesystem::resize_file(only_file(), 20);
  start({"a"});
  EXPECT_EQ(n_compiled, 2);
  start({"a"});
  EXPECT_EQ(n_compiled, 2);
}

TEST_F(KernelLibraries, TakeThePtxWhereTheDriverRefusesTheCubin) {
  fake_.refused_image = "code: cubin";
  start({"a"});
  EXPECT_EQ(loads(), 2);
  start({"a"});
  EXPECT_EQ(loads(), 4);
  EXPECT_EQ(n_compiled, 1);
}

// Whole, undamaged, and still nothing that this driver loads.
TEST_F(KernelLibraries, CompileAnewWhatTheDriverRefuses) {
  const CompileJob job = {.unit = kUnits[0], .architecture = {"sm_90a"}, .files = kFiles};
  KernelCache(path_, {}).store({digest_of(job), kVersion}, {.ptx = "stale", .cubin = "stale"});
  fake_.refused_image = "stale";
  start({"a"});
  EXPECT_EQ(n_compiled, 1);
  EXPECT_EQ(loads(), 5);  // the stale one is also looked at as any NVRTC's
  start({"a"});
  EXPECT_EQ(n_compiled, 1);
}

TEST_F(KernelLibraries, TellWhenTheDriverRefusesEverything) {
  fake_.refused_image = "code";
  const Failure failure = failure_of({"a"});
  EXPECT_EQ(failure.status(), BONSAI_INTERNAL);
  EXPECT_STREQ(
      failure.what(),
      "the driver, for CUDA 12.4, refuses what NVRTC 12.4 made of a for sm_90a: cuModuleLoadDataEx: "
      "CUDA_ERROR_NO_BINARY_FOR_GPU: some text: ptxas fatal; cuModuleLoadDataEx: CUDA_ERROR_NO_BINARY_FOR_GPU: "
      "some text: ptxas fatal");
}

TEST_F(KernelLibraries, PassOnWhatElseFails) {
  fake_.result = CUDA_ERROR_OUT_OF_MEMORY;
  fake_.failing = "cuModuleLoadDataEx";
  EXPECT_EQ(failure_of({"a"}).status(), BONSAI_OUT_OF_MEMORY);
}

TEST_F(KernelLibraries, TellWhatDoesNotCompile) {
  const Failure failure = failure_of({"a", "broken", "c"});
  EXPECT_EQ(failure.status(), BONSAI_INTERNAL);
  EXPECT_STREQ(failure.what(),
               "broken does not compile for sm_90a: NVRTC_ERROR_COMPILATION: broken.cu(1): error: no sense");
}

TEST_F(KernelLibraries, AreUsableAfterAFailure) {
  KernelLibrary library(context_, config());
  EXPECT_THROW(library.prepare(std::vector<std::string>{"broken"}), Failure);
  EXPECT_NO_THROW(library.prepare(std::vector<std::string>{"a"}));
}

TEST_F(KernelLibraries, NeedNoNvrtcWhereTheCacheIsWarm) {
  start({"a"});
  start({"a"}, without_nvrtc());
  EXPECT_EQ(n_compiled, 1);
}

TEST_F(KernelLibraries, NeedNvrtcForWhatIsNotKept) {
  start({"b"});
  const Failure failure = failure_of({"a"}, without_nvrtc());
  EXPECT_EQ(failure.status(), BONSAI_UNSUPPORTED);
  EXPECT_STREQ(failure.what(), "a must be compiled for sm_90a: NVRTC is not found, looked for libnvrtc.so.13");
}

// Kernels that were brought from elsewhere may be newer than the driver.
TEST_F(KernelLibraries, TakeWhatAnOlderNvrtcMadeWhereTheDriverRefusesTheNewest) {
  const CompileJob job = {.unit = kUnits[0], .architecture = {"sm_90a"}, .files = kFiles};
  KernelCache cache(path_, {});
  cache.store({digest_of(job), 13000}, {.ptx = "", .cubin = "newer"});
  fake_.refused_image = "newer";
  const Failure failure = failure_of({"a"}, without_nvrtc());
  EXPECT_EQ(failure.status(), BONSAI_UNSUPPORTED);
  EXPECT_STREQ(failure.what(),
               "a must be compiled for sm_90a: the driver, for CUDA 12.4, refuses what is kept of it: "
               "cuModuleLoadDataEx: CUDA_ERROR_NO_BINARY_FOR_GPU: some text: ptxas fatal; and NVRTC is not found, "
               "looked for libnvrtc.so.13");
  cache.store({digest_of(job), 12040}, {.ptx = "", .cubin = "older"});
  EXPECT_NO_THROW(start({"a"}, without_nvrtc()));
}

// A toolkit that is newer than the driver, and kernels from before it was installed.
TEST_F(KernelLibraries, TakeWhatAnOlderNvrtcMadeWhereTheDriverRefusesWhatTheInstalledOneMakes) {
  const CompileJob job = {.unit = kUnits[0], .architecture = {"sm_90a"}, .files = kFiles};
  KernelCache(path_, {}).store({digest_of(job), kVersion}, {.ptx = "", .cubin = "older"});
  fake_.refused_image = "code";
  EXPECT_NO_THROW(start({"a"}, with_newer_nvrtc()));
  EXPECT_EQ(n_compiled, 1);
  EXPECT_NO_THROW(start({"a"}, with_newer_nvrtc()));
  EXPECT_EQ(n_compiled, 1) << "it is known by now what the driver refuses";
}

TEST_F(KernelLibraries, TellWhatHelpsWhereNvrtcIsNewerThanTheDriver) {
  const std::string refusal = "cuModuleLoadDataEx: CUDA_ERROR_NO_BINARY_FOR_GPU: some text: ptxas fatal";
  fake_.refused_image = "code";
  EXPECT_EQ(failure_of({"a"}, with_newer_nvrtc()).what(),
            "the driver, for CUDA 12.4, refuses what NVRTC 13.0 made of a for sm_90a: " + refusal + "; " + refusal +
                "; install NVRTC 12, or a newer driver");
  ASSERT_FALSE(lines_.empty());
  EXPECT_EQ(lines_[0],
            "cuda: NVRTC 13.0 is newer than the driver, for CUDA 12.4, which may refuse what it makes: install NVRTC "
            "12, or a newer driver");
  lines_.clear();
  LibraryConfig little_newer = config();
  little_newer.nvrtc.nvrtc = make_nvrtc(12090);
  const std::string what = failure_of({"a"}, little_newer).what();
  EXPECT_TRUE(what.ends_with("; install NVRTC 12.4, or a newer driver")) << what;
  EXPECT_EQ(lines_, std::vector<std::string>{"cuda: compiling kernels for sm_90a, 1 of 1"});
}

// Before a device is opened: another backend may serve.
TEST_F(KernelLibraries, TellAtOnceThatNoKernelsCanBeHad) {
  const std::string why = ", and none can be compiled: NVRTC is not found, looked for libnvrtc.so.13";
  const std::string expected = "no kernels for sm_90a are kept in " + path_ + why;
  EXPECT_EQ(why_no_kernels(without_nvrtc()), expected);
  const Failure failure = failure_of({}, without_nvrtc());
  EXPECT_EQ(failure.status(), BONSAI_UNSUPPORTED);
  EXPECT_EQ(failure.what(), expected);
  LibraryConfig none = without_nvrtc();
  none.cache_directory = "";
  EXPECT_EQ(why_no_kernels(none), "no kernels for sm_90a are kept" + why);
  EXPECT_EQ(why_no_kernels(config()), "");
  start({"c"});
  EXPECT_EQ(why_no_kernels(without_nvrtc()), "");
}

// Kernels that were copied there with the wrong owner or mode would else look as if they were none.
TEST_F(KernelLibraries, TellWhyKernelsThatAreThereAreNotUsed) {
  start({"a"});
  const std::string why = ", and none can be compiled: NVRTC is not found, looked for libnvrtc.so.13";
  const std::string kept = "no kernels for sm_90a are kept in " + path_, file = only_file();
  chmod(file.c_str(), 0664);
  EXPECT_EQ(why_no_kernels(without_nvrtc()),
            kept + " (not used: " + file + ": others can write it (mode 0664), expected 0600)" + why);
  chmod(file.c_str(), 0600);
  EXPECT_EQ(why_no_kernels(without_nvrtc()), "");
  chmod(path_.c_str(), 0775);
  EXPECT_EQ(why_no_kernels(without_nvrtc()),
            kept + " (not used: " + path_ + ": others can write it (mode 0775), expected 0700)" + why);
}

// A proof takes a tenth of a second, and an NVRTC that crashes ends the process.
TEST_F(KernelLibraries, HaveNvrtcProveItselfOnlyWhereSomethingMustBeCompiled) {
  int n_proved = 0;
  LibraryConfig unproved = config();
  unproved.proved_nvrtc = [&, nvrtc = unproved.nvrtc] { return ++n_proved, nvrtc; };
  EXPECT_EQ(why_no_kernels(unproved), "");
  EXPECT_EQ(n_proved, 1) << "there is nothing but what it compiles";
  start({"a"});
  EXPECT_EQ(why_no_kernels(unproved), "");
  {
    KernelLibrary library(context_, unproved);
    library.prepare(std::vector<std::string>{"a"});
    EXPECT_EQ(n_proved, 1);
    library.prepare(std::vector<std::string>{"b"});
    EXPECT_EQ(n_proved, 2);
    library.prepare(std::vector<std::string>{"c"});
    EXPECT_EQ(n_proved, 2);
  }
  EXPECT_EQ(n_compiled, 3);
}

// Half an installation, say, ahead of the whole one that has made what is kept.
TEST_F(KernelLibraries, TakeWhatIsKeptOfTheNvrtcThatProvesItself) {
  start({"a"});
  auto proved = std::make_shared<Nvrtc>(*make_nvrtc(kVersion));
  LibraryConfig half = with_newer_nvrtc();
  half.proved_nvrtc = [&] { return NvrtcResult{proved, ""}; };
  start({"a"}, half);
  EXPECT_EQ(n_compiled, 1);
  proved->architectures = {75, 80};
  KernelLibrary library(context_, half);
  const Architecture &before = library.architecture();
  library.prepare(std::vector<std::string>{"b"});
  EXPECT_EQ(n_compiled, 2);
  EXPECT_EQ(before.name, "sm_90a");
  EXPECT_EQ(library.architecture().name, "compute_80");
}

TEST_F(KernelLibraries, TakeWhatAnyNvrtcMadeWhereNoneProvesItself) {
  start({"a"});
  LibraryConfig none = with_newer_nvrtc();
  none.proved_nvrtc = [] { return NvrtcResult{nullptr, "NVRTC is not found, looked for libnvrtc.so.13: half"}; };
  EXPECT_EQ(why_no_kernels(none), "");
  start({"a"}, none);
  EXPECT_EQ(n_compiled, 1);
  EXPECT_STREQ(failure_of({"b"}, none).what(),
               "b must be compiled for sm_90a: NVRTC is not found, looked for libnvrtc.so.13: half");
  none.cache_directory = "";
  EXPECT_EQ(why_no_kernels(none),
            "no kernels for sm_90a are kept, and none can be compiled: NVRTC is not found, looked for libnvrtc.so.13: "
            "half");
}

TEST_F(KernelLibraries, DoNotTakeAnotherNvrtcsWork) {
  start({"a"});
  start({"a"}, with_newer_nvrtc());
  EXPECT_EQ(n_compiled, 2);
  start({"a"});
  EXPECT_EQ(n_compiled, 2);
}

TEST_F(KernelLibraries, ServeDevicesThatNvrtcDoesNotKnow) {
  LibraryConfig newer = config();
  newer.capability = 120;
  KernelLibrary library(context_, newer);
  EXPECT_EQ(library.architecture().name, "compute_90");
  fake_.refused_image = "code: cubin";  // none is made
  library.prepare(std::vector<std::string>{"a"});
  EXPECT_EQ(loads(), 1);
}

// Where they were made and where they run, the device is the same; what compiled them there did not know it.
TEST_F(KernelLibraries, NeedNoNvrtcWherePtxForAnOlderDeviceIsKept) {
  LibraryConfig newer = config();
  newer.capability = 120;
  start({"a"}, newer);
  LibraryConfig without = without_nvrtc();
  without.capability = 120;
  EXPECT_EQ(why_no_kernels(without), "");
  start({"a"}, without);
  EXPECT_EQ(n_compiled, 1);
  without.capability = 89;  // PTX for 9.0 is nothing for it
  EXPECT_NE(why_no_kernels(without), "");
}

TEST_F(KernelLibraries, TellUnknownUnits) {
  EXPECT_STREQ(failure_of({"d"}).what(), "there is no unit of kernels named d");
  EXPECT_EQ(n_compiled, 0);
}

}  // namespace
}  // namespace bonsai::cuda
