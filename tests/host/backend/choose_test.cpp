// Which backend is taken, what is said about the others, and who is sent which option.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/floating_point_environment.h"
#include "host/backend/registry.h"
#include "tests/host/backend/fake_directory.h"

namespace bonsai::host {
namespace {

using test::FakeDirectory;

// Opens devices from the test's own directories, and keeps what was logged.
class Choose : public testing::Test {
 protected:
  Choose() { request.search.directories = {first.path(), second.path()}; }

  BackendResult<std::unique_ptr<Device>> open(const std::string &backend) {
    request.backend = backend;
    lines.clear();
    return open_device(request, [this](bonsai_log_level level, const std::string &line) {
      lines.push_back(line);
      if (level == BONSAI_LOG_WARNING) warnings.push_back(line);
    });
  }

  // The name of the backend that was opened, or the error.
  std::string opened(const std::string &backend) {
    const auto device = open(backend);
    return device ? (*device)->backend().name() : device.error().message;
  }

  bool logged(const std::string &line) const { return std::find(lines.begin(), lines.end(), line) != lines.end(); }

  FakeDirectory first, second;
  BackendRequest request;
  std::vector<std::string> lines, warnings;
};

TEST_F(Choose, AutoTakesTheHighestPriority) {
  first.add("good");
  first.add("high");
  EXPECT_EQ(opened("auto"), "high");
}

// The CPU backend is the last resort, whatever it or others say of their priority.
TEST_F(Choose, AutoTakesTheCpuLast) {
  first.add("lying_cpu", "cpu");
  second.add("good");
  EXPECT_EQ(opened("auto"), "good");
}

// A backend that asks to be avoided never comes before the CPU, and still serves where nothing else does.
TEST_F(Choose, AutoTakesANegativePriorityAfterTheCpu) {
  first.add("low");
  EXPECT_EQ(opened("auto"), "low");
  second.add("lying_cpu", "cpu");
  EXPECT_EQ(opened("auto"), "cpu");
}

// Nobody asks for such a backend by asking for none.
TEST_F(Choose, AutoWarnsOfANegativePriorityWhereAnotherShouldHaveServed) {
  first.add("low");
  EXPECT_EQ(opened("auto"), "low");
  EXPECT_TRUE(warnings.empty());
  const auto cpu = second.add("cpu_open_fails", "cpu");
  EXPECT_EQ(opened("auto"), "low");
  EXPECT_EQ(warnings, std::vector<std::string>{"using 'low', as no other backend could be opened: " + cpu.string() +
                                               ": cpu: the device has 2 GB, 4 are needed (out of memory)"});
}

TEST_F(Choose, AutoSaysWhyItPassedEachBy) {
  const auto poem = first.write("libbonsai_poem.so", "a poem");
  const auto none = first.add("no_device");
  const auto poor = first.add("open_fails");
  const auto cpu = second.add("lying_cpu", "cpu");
  const auto shadowed = second.add("no_device");
  first.write("unrelated.so", "not looked at");
  EXPECT_EQ(opened("auto"), "cpu");
  EXPECT_EQ(lines,
            (std::vector<std::string>{
                "not used: " + poem.string() + ": not a shared object: the file does not begin with ELF's magic number",
                "not used: " + shadowed.string() + ": a backend named 'no_device' was found earlier",
                "not used: " + none.string() + ": no device: libfake.so.1 is not installed",
                "not used: " + poor.string() + ": open_fails: the device has 2 GB, 4 are needed (out of memory)",
                "using cpu 1.2.3 from " + cpu.string() + ", device 0: fake?[31m device",
            }));
  EXPECT_EQ(warnings, std::vector<std::string>{lines[3]}) << "of the device that is there and does not open";
}

TEST_F(Choose, AutoWithNothingThatOpensIsAnErrorWithEveryReason) {
  EXPECT_EQ(opened("auto"),
            "no backend could be opened: libbonsai_*.so: not found in " + first.text() + ", " + second.text());
  const auto none = first.add("no_device");
  EXPECT_EQ(opened("auto"),
            "no backend could be opened: " + none.string() + ": no device: libfake.so.1 is not installed");
}

TEST_F(Choose, ANameIsAFileInTheFirstDirectoryThatHasIt) {
  first.add("high");
  const auto earlier = first.add("good");
  second.add("good");
  EXPECT_EQ(opened("good"), "good");
  EXPECT_TRUE(logged("using good 1.2.3 from " + earlier.string() + ", device 0: fake?[31m device"));
}

// What is loaded stays usable when its file goes.
TEST_F(Choose, TheCpuMayBeLoadedAheadOfItsUse) {
  EXPECT_EQ(find_cpu(request.search, {}), nullptr);
  const auto file = first.add("lying_cpu", "cpu");
  request.cpu = find_cpu(request.search, {});
  ASSERT_NE(request.cpu, nullptr);
  std::filesystem::remove(file);
  EXPECT_EQ(opened("absent"), "cpu");
}

// Else `--backend NAME` would mean the one and a list of backends the other.
TEST_F(Choose, ABackendHasTheNameOfItsFile) {
  const auto path = first.add("good", "mine");
  request.strict = true;
  const std::string reason = path.string() + ": its name is 'good', expected 'mine' in a file of this name";
  EXPECT_EQ(opened("mine"), "backend 'mine' could not be opened: " + reason);
  EXPECT_EQ(opened(path.string()), "backend '" + path.string() + "' could not be opened: " + reason);
  EXPECT_EQ(opened("auto"), "no backend could be opened: " + reason);
  EXPECT_EQ(opened("good"), "backend 'good' could not be opened: libbonsai_good.so: not found in " + first.text() +
                                ", " + second.text());
}

// A file that is given by its path may be called anything; but what the host takes for the CPU backend is where others
// fall back to.
TEST_F(Choose, NamesThatMeanSomethingElseAreRefused) {
  const auto copy = [this](const std::string &fake, const std::string &file) {
    std::filesystem::copy_file(FakeDirectory::built(fake), first.path() / file);
    return (first.path() / file).string();
  };
  request.strict = true;
  EXPECT_EQ(opened(copy("good", "good.so")), "good");
  const std::string cpu = copy("lying_cpu", "mine.so");
  EXPECT_EQ(opened(cpu), "backend '" + cpu + "' could not be opened: " + cpu +
                             ": its name is 'cpu', which is kept for the backend in libbonsai_cpu.so");
  const std::string any = copy("auto", "any.so");
  EXPECT_EQ(opened(any),
            "backend '" + any + "' could not be opened: " + any + ": its name is 'auto', which means any backend");
}

TEST_F(Choose, WhatABackendDoesNotSayIsShownAsThat) {
  first.add("bare");
  EXPECT_EQ(opened("bare"), "bare");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("using bare (no version) from ")) << lines[0];
  EXPECT_TRUE(lines[0].ends_with(", device 0: (no name)")) << lines[0];
}

// A broken copy must not take a working one away.
TEST_F(Choose, AFileThatDoesNotLoadHidesNothing) {
  first.write("libbonsai_good.so", "");
  second.add("good");
  EXPECT_EQ(opened("good"), "good");
  EXPECT_EQ(opened("auto"), "good");
}

TEST_F(Choose, DiscoverListsEveryFileInSearchOrder) {
  first.add("good");
  first.write("libbonsai_a.so", "");
  second.add("good");
  second.write("libbonsai_.so", "no name");
  request.search.directories.push_back(first.path() / "does-not-exist");
  const auto candidates = discover(request.search);
  ASSERT_EQ(candidates.size(), 3u);
  EXPECT_EQ(candidates[0].name, "a");
  EXPECT_EQ(candidates[0].reason, "an empty file, not a shared object");
  EXPECT_EQ(candidates[0].backend, nullptr);
  EXPECT_EQ(candidates[1].name, "good");
  EXPECT_FALSE(candidates[1].shadowed);
  EXPECT_EQ(candidates[2].path, second.path() / "libbonsai_good.so");
  EXPECT_TRUE(candidates[2].shadowed);
}

TEST_F(Choose, APathIsTakenAsItIs) {
  const auto path = FakeDirectory::built("high").string();
  EXPECT_EQ(opened(path), "high");
}

TEST_F(Choose, WhatCannotBeOpenedFallsBackToTheCpuWithAWarning) {
  first.add("lying_cpu", "cpu");
  const auto none = first.add("no_device");
  EXPECT_EQ(opened("no_device"), "cpu");
  EXPECT_EQ(warnings, std::vector<std::string>{"backend 'no_device' could not be opened, falling back to the CPU: " +
                                               none.string() + ": no device: libfake.so.1 is not installed"});
  EXPECT_EQ(opened("absent"), "cpu");
  EXPECT_EQ(opened("./absent.so"), "cpu");
}

TEST_F(Choose, StrictIsAnErrorInstead) {
  first.add("lying_cpu", "cpu");
  const auto none = first.add("no_device");
  request.strict = true;
  EXPECT_EQ(opened("no_device"),
            "backend 'no_device' could not be opened: " + none.string() + ": no device: libfake.so.1 is not installed");
  EXPECT_EQ(opened("absent"), "backend 'absent' could not be opened: libbonsai_absent.so: not found in " +
                                  first.text() + ", " + second.text());
  EXPECT_EQ(opened("./absent.so"), "backend './absent.so' could not be opened: ./absent.so: no such file");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(Choose, ACpuThatCannotBeOpenedHasNothingToFallBackTo) {
  EXPECT_EQ(opened("cpu"),
            "backend 'cpu' could not be opened: libbonsai_cpu.so: not found in " + first.text() + ", " + second.text());
  const std::string places = ": not found in " + first.text() + ", " + second.text();
  const std::string no_cpu =
      "; the CPU could not take over: the CPU backend could not be opened: libbonsai_cpu.so" + places;
  EXPECT_EQ(opened("absent"), "backend 'absent' could not be opened: libbonsai_absent.so" + places + no_cpu);
  const auto silent = first.add("open_is_silent");
  EXPECT_EQ(opened("open_is_silent"), "backend 'open_is_silent' could not be opened: " + silent.string() +
                                          ": open_is_silent: device_open failed without a message (internal error)" +
                                          no_cpu);
}

TEST_F(Choose, ANameThatIsNeitherNameNorPathIsExplained) {
  request.strict = true;
  EXPECT_EQ(opened("lib mine.so"),
            "backend 'lib mine.so' could not be opened: 'lib mine.so': neither a backend's name nor a path (a path has "
            "a '/')");
}

TEST_F(Choose, ABackendIsSentOnlyTheOptionsThatItLists) {
  first.add("good");
  first.add("lying_cpu", "cpu");
  request.options = {{"good.speed", "3"}, {"cpu.speed", "9"}};
  EXPECT_EQ(opened("auto"), "good");
  EXPECT_TRUE(logged("device 0: good.speed is 3"));
  EXPECT_FALSE(logged("device 0: cpu.speed is 9"));
  EXPECT_TRUE(logged("option 'cpu.speed' is not one of good's: not sent"));
}

// A backend that was not asked for may still be what the option was meant for: it is not a mistake.
TEST_F(Choose, AnOptionOfAnyBackendInTheSearchPathIsKnown) {
  first.add("good");
  first.add("lying_cpu", "cpu");
  request.options = {{"cpu.speed", "9"}};
  EXPECT_EQ(opened("good"), "good");
}

TEST_F(Choose, AnOptionThatNoBackendKnowsIsAnError) {
  first.add("good");
  first.add("lying_cpu", "cpu");
  request.options = {{"good.sped", "3"}};
  EXPECT_EQ(opened("good"),
            "no backend knows the option 'good.sped'; known are: cpu.colour, cpu.speed, device, good.colour, "
            "good.speed");
}

// "4 threads", and there is no CPU backend: nothing is misspelt.
TEST_F(Choose, AnOptionThatIsImpliedMayBeNobodys) {
  first.add("good");
  request.options = {{"cpu.threads", "4", true}};
  EXPECT_EQ(opened("good"), "good");
  request.options.push_back({"cpu.thread", "4"});
  EXPECT_NE(opened("good").find("no backend knows the option 'cpu.thread'"), std::string::npos);
}

// Without a device there is nobody to ask which keys exist: the option is no mistake on this machine.
TEST_F(Choose, AnOptionOfABackendWithoutADeviceIsAccepted) {
  first.add("no_device");
  first.add("lying_cpu", "cpu");
  request.options = {{"no_device.graph", "1"}};
  EXPECT_EQ(opened("auto"), "cpu");
}

// With another backend the option would have no effect, and nobody would know.
TEST_F(Choose, AValueThatItsBackendRefusesIsAnErrorWhateverElseIsThere) {
  first.add("good");
  first.add("lying_cpu", "cpu");
  request.options = {{"good.speed", "absurd"}};
  const std::string refusal = "good: good.speed is 'absurd', expected sense (invalid argument)";
  EXPECT_EQ(opened("auto"), refusal);
  EXPECT_EQ(opened("good"), refusal);
  EXPECT_EQ(opened("cpu"), "cpu") << "it is not sent the option";
  request.options = {{"cpu.speed", "absurd"}};
  EXPECT_EQ(opened("cpu"), "cpu: cpu.speed is 'absurd', expected sense (invalid argument)");
}

// Which may be hours later, in the middle of a text.
TEST_F(Choose, AValueThatTheCpuWouldRefuseWhenItTakesOverIsAnErrorAtOnce) {
  first.add("good");
  const auto cpu = first.add("lying_cpu", "cpu");
  request.options = {{"cpu.speed", "absurd"}};
  const std::string refusal = "cpu: cpu.speed is 'absurd', expected sense (invalid argument)";
  EXPECT_EQ(opened("auto"), refusal);
  EXPECT_EQ(opened("good"), refusal);
  request.cpu = find_cpu(request.search, {});
  std::filesystem::remove(cpu);
  EXPECT_EQ(opened("good"), refusal);
  request.strict = true;
  EXPECT_EQ(opened("good"), "good") << "it never takes over";
}

TEST_F(Choose, TheDeviceOptionPicksTheDevice) {
  const auto path = first.add("two_devices");
  request.strict = true;
  request.options = {{"device", "1"}, {"two_devices.speed", "3"}};
  EXPECT_EQ(opened("two_devices"), "two_devices");
  EXPECT_TRUE(logged("device 1: two_devices.speed is 3"));
  request.options = {{"device", "2"}};
  EXPECT_EQ(opened("two_devices"),
            "backend 'two_devices' could not be opened: " + path.string() + ": no device 2, it has 2");
}

TEST_F(Choose, TheDeviceOptionIsANumber) {
  for (const std::string value : {"", "one", "-1", "1x", "99999999999"}) {
    request.options = {{"device", value}};
    EXPECT_EQ(opened("auto"), "option 'device': expected a device's number, found '" + value + "'");
  }
}

// The number was meant for the backend that did not open.
TEST_F(Choose, TheCpuAsALastResortIsItsFirstDevice) {
  first.add("lying_cpu", "cpu");
  request.options = {{"device", "1"}};
  EXPECT_EQ(opened("auto"), "cpu");
  EXPECT_EQ(warnings, std::vector<std::string>{"there is no device 1, using the CPU: no other backend"});
  EXPECT_EQ(opened("absent"), "cpu");
  EXPECT_NE(opened("cpu"), "cpu");
}

// What a device cannot be used for, another one may serve; what does not serve is told.
class ChooseUse : public Choose {
 protected:
  // Puts devices to a use that backends of some names do not serve; the one that serves, or the error.
  std::string used(const std::string &backend, const std::vector<std::string> &useless) {
    request.backend = backend;
    lines.clear();
    warnings.clear();
    std::string served;
    const auto done = open_device(
        request,
        [this](bonsai_log_level level, const std::string &line) {
          lines.push_back(line);
          if (level == BONSAI_LOG_WARNING) warnings.push_back(line);
        },
        [&](std::unique_ptr<Device> device) -> BackendResult<void> {
          const std::string &name = device->backend().name();
          if (std::find(useless.begin(), useless.end(), name) != useless.end())
            return tl::unexpected(BackendError{BONSAI_UNSUPPORTED, name + " is of no use"});
          served = name;
          return {};
        });
    return done ? served : done.error().message;
  }
};

TEST_F(ChooseUse, AutoGoesOnToTheNextThatServes) {
  for (const char *fake : {"high", "good", "low"}) first.add(fake);
  first.add("lying_cpu", "cpu");
  EXPECT_EQ(used("auto", {}), "high");
  EXPECT_EQ(used("auto", {"high"}), "good");
  EXPECT_EQ(warnings, std::vector<std::string>{"high is of no use; trying 'good'"});
  EXPECT_EQ(used("auto", {"high", "good"}), "cpu");
  EXPECT_EQ(warnings, (std::vector<std::string>{"high is of no use; trying 'good'",
                                                "good is of no use; falling back to the CPU"}));
  EXPECT_EQ(used("auto", {"high", "good", "cpu"}), "cpu is of no use") << "there is nothing behind the CPU";
}

TEST_F(ChooseUse, WhatIsNamedFallsBackToTheCpuAtOnce) {
  for (const char *fake : {"high", "good"}) first.add(fake);
  first.add("lying_cpu", "cpu");
  EXPECT_EQ(used("good", {"good"}), "cpu");
  EXPECT_EQ(warnings, std::vector<std::string>{"good is of no use; falling back to the CPU"});
  EXPECT_EQ(used("cpu", {"cpu"}), "cpu is of no use");
  request.strict = true;
  EXPECT_EQ(used("good", {"good"}), "good is of no use");
  EXPECT_EQ(used("auto", {"high"}), "high is of no use");
}

struct Hostile {
  std::string fake, reason;
};

class ChooseHostile : public Choose, public testing::WithParamInterface<Hostile> {};

TEST_P(ChooseHostile, IsRefusedWithAReason) {
  const auto path = first.add(GetParam().fake);
  request.strict = true;
  EXPECT_EQ(opened(GetParam().fake), "backend '" + GetParam().fake + "' could not be opened: " + path.string() + ": " +
                                         GetParam().fake + ": " + GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(
    Fakes, ChooseHostile,
    testing::Values(Hostile{"open_fails_rudely", std::string(496, 'x') + " (unknown status 77)"},
                    Hostile{"open_says_escapes", "a?[2Jb c d?e? (internal error)"},
                    Hostile{"open_is_silent", "device_open failed without a message (internal error)"},
                    Hostile{"open_gives_null", "device_open succeeded without a device"},
                    Hostile{"garbage_options", "device_info reports 4294967295 options, at most 256 make sense"},
                    Hostile{"null_options", "device_info reports 2 options and no array"},
                    Hostile{"nameless_option", "device_info's option 1 has no key"},
                    Hostile{"option_twice", "device_info lists the option 'option_twice.speed' twice"},
                    Hostile{"ambiguous_option", "device_info lists the option 'a=b', which nobody can give"},
                    Hostile{"hosts_option", "device_info lists the option 'device', which nobody can give"},
                    Hostile{"too_many_devices", "device_count reports 4000000000 devices, at most 1024 make sense"},
                    Hostile{"blocks_of_none", "device_info reports KV blocks of 0 tokens, expected 1 to 65536"},
                    Hostile{"huge_blocks", "device_info reports KV blocks of 65537 tokens, expected 1 to 65536"}),
    [](const auto &info) { return info.param.fake; });

TEST_F(Choose, AProfileIsCopiedAsText) {
  first.add("profile");
  const auto device = open("profile");
  ASSERT_TRUE(device) << device.error().message;
  const auto phases = (*device)->profile(BONSAI_PROFILE_READ);
  ASSERT_TRUE(phases) << phases.error().message;
  ASSERT_TRUE(phases->has_value());
  ASSERT_EQ((*phases)->size(), 1u);
  EXPECT_EQ((*phases)->front().name, "a b");
  EXPECT_EQ((*phases)->front().seconds, 0.5);
  EXPECT_EQ((*phases)->front().calls, 3u);
}

TEST_F(Choose, ADeviceWithoutProfileSaysSo) {
  first.add("good");
  const auto device = open("good");
  ASSERT_TRUE(device) << device.error().message;
  const auto phases = (*device)->profile(BONSAI_PROFILE_START);
  ASSERT_TRUE(phases) << phases.error().message;
  EXPECT_FALSE(phases->has_value());
}

TEST_F(Choose, AProfileThatMakesNoSenseIsNotRead) {
  const std::vector<std::pair<std::string, std::string>> fakes = {
      {"garbage_phases", "profile reports 4294967295 phases, at most 256 make sense"},
      {"null_phases", "profile reports 1 phases and no array"},
      {"short_phase", "profile's phase 1 is missing or too short"}};
  for (const auto &[fake, message] : fakes) {
    first.add(fake);
    const auto device = open(fake);
    ASSERT_TRUE(device) << device.error().message;
    const auto phases = (*device)->profile(BONSAI_PROFILE_READ);
    ASSERT_FALSE(phases) << fake;
    EXPECT_EQ(phases.error().message, fake + ": " + message);
  }
}

TEST_F(Choose, DeviceInfoIsCopiedAsText) {
  first.add("good");
  const auto device = open("good");
  ASSERT_TRUE(device) << device.error().message;
  const DeviceInfo &info = (*device)->info();
  EXPECT_EQ(info.name, "fake?[31m device");
  ASSERT_EQ(info.options.size(), 2u);
  EXPECT_EQ(info.options[1].key, "good.colour");
  EXPECT_EQ(info.options[1].help, "which (default: red)");
}

TEST_F(Choose, ADtypeThatTheBackendDoesNotKnowHasNoUses) {
  first.add("good");
  const auto device = open("good");
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ((*device)->dtype_support(4711).value(), 0u);
}

TEST_F(Choose, AFailedUploadKeepsStatusAndMessage) {
  first.add("good");
  const auto device = open("good");
  ASSERT_TRUE(device) << device.error().message;
  const auto weight = Weight::upload(**device, "w", 1, {}, BONSAI_USE_MATRIX, false);
  ASSERT_FALSE(weight);
  EXPECT_EQ(weight.error().status, bonsai_status{BONSAI_OUT_OF_MEMORY});
  EXPECT_EQ(weight.error().message, "good: device memory: 12 bytes (out of memory)");
}

// The callback runs inside the backend, and no exception may cross it.
TEST_F(Choose, AnExceptionOfTheLogEndsAtTheBackend) {
  const auto backend = Backend::load(FakeDirectory::built("good"));
  ASSERT_TRUE(backend);
  const std::vector<DeviceOption> options = {{"good.speed", "1"}};
  const auto device = Device::open(*backend, 0, options, [](bonsai_log_level, const std::string &) {
    throw std::runtime_error("the log's disk is full");
  });
  EXPECT_TRUE(device);
}

// Whatever a backend sets in the thread that calls it: what the application computes next is computed as before.
TEST_F(Choose, ACallLeavesTheFloatingPointEnvironmentAsItWas) {
  const auto backend = Backend::load(FakeDirectory::built("careless"));
  ASSERT_TRUE(backend);
  const auto settings = [] { return FloatingPointControl::read() & ~FloatingPointControl::kFlags; };
  const FloatingPointControl::Register before = settings();
  EXPECT_EQ(device_count(**backend, nullptr).value(), 1u);
  EXPECT_EQ(settings(), before);
  auto device = Device::open(*backend, 0, {}, [](bonsai_log_level, const std::string &) {});
  ASSERT_TRUE(device);
  device->reset();
  EXPECT_EQ(settings(), before);
}

// Applications know the four levels, and show what they are told.
TEST_F(Choose, ALogHasLinesAtTheLevelsThatThereAre) {
  const auto backend = Backend::load(FakeDirectory::built("careless"));
  ASSERT_TRUE(backend);
  std::vector<std::string> lines;
  const auto device = Device::open(*backend, 0, {}, [&lines](bonsai_log_level level, const std::string &line) {
    lines.push_back(std::to_string(level) + " " + line);
  });
  ASSERT_TRUE(device);
  EXPECT_EQ(lines, std::vector<std::string>{"3 at a level of its own"});
}

TEST_F(Choose, MoreFreeMemoryThanThereIsIsNotKnown) {
  const auto backend = Backend::load(FakeDirectory::built("careless"));
  ASSERT_TRUE(backend);
  const auto device = Device::open(*backend, 0, {}, [](bonsai_log_level, const std::string &) {});
  ASSERT_TRUE(device);
  EXPECT_EQ((*device)->info().memory_total_bytes, 5u);
  EXPECT_EQ((*device)->info().memory_free_bytes, 0u);
  EXPECT_EQ((*device)->status()->memory_total_bytes, 5u);
  EXPECT_EQ((*device)->status()->memory_free_bytes, 0u);
}

class SearchVariable : public testing::Test {
 protected:
  ~SearchVariable() override { unsetenv("BONSAI_BACKEND_PATH"); }
};

TEST_F(SearchVariable, ComesFirstThenTheProgramsThenTheInstalledDirectory) {
  setenv("BONSAI_BACKEND_PATH", "/opt/a::/opt/b/../c:/opt/a/:", 1);
  const auto directories = SearchPath::standard().directories;
  ASSERT_EQ(directories.size(), 4u);
  EXPECT_EQ(directories[0], "/opt/a");
  EXPECT_EQ(directories[1], "/opt/c");
  EXPECT_EQ(directories[2], BONSAI_BINARY_DIR "/lib/bonsai");
  EXPECT_TRUE(directories[3].string().ends_with("/bonsai")) << directories[3];
}

TEST_F(SearchVariable, MayHoldRelativePaths) {
  setenv("BONSAI_BACKEND_PATH", "plugins:.", 1);
  const auto directories = SearchPath::standard().directories;
  EXPECT_EQ(directories[0], std::filesystem::current_path() / "plugins");
  EXPECT_EQ(directories[1], std::filesystem::current_path());
}

TEST_F(SearchVariable, MayBeAbsent) {
  unsetenv("BONSAI_BACKEND_PATH");
  EXPECT_EQ(SearchPath::standard().directories.size(), 2u);
}

TEST_F(SearchVariable, LeadsToItsBackends) {
  FakeDirectory directory;
  directory.add("high");
  setenv("BONSAI_BACKEND_PATH", directory.path().c_str(), 1);
  BackendRequest request;
  request.backend = "high";
  request.strict = true;
  const auto device = open_device(request, nullptr);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ((*device)->backend().path(), directory.path() / "libbonsai_high.so");
}

}  // namespace
}  // namespace bonsai::host
