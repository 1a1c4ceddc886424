// Promises of bonsai-plugin-check: every check answers in one line, whatever the plugin does to the process.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <ostream>
#include <string>
#include <vector>

#include "tests/tools/tool.h"
#include "tools/plugin-check/check.h"

namespace bonsai::check {
namespace {

using test::in_quotes;
using test::Outcome;

const std::string kTemplate = BONSAI_TEMPLATE_PLUGIN, kFaulty = BONSAI_FAULTY_PLUGIN;

Outcome check(const std::string &arguments) {
  return test::run_shell("ulimit -c 0; bonsai-plugin-check " + arguments);  // crashes here are meant, and leave no core
}

// The faulty backend with one fault. The quick checks of gemv in F32, and one before and one after it.
Outcome check_faulty(const std::string &fault, const std::string &options = "") {
  return check(in_quotes(kFaulty) + " --backend-opt 'fault=" + fault +
               "' --only dtypes --only gemv.F32 --only lifetime.session-memory " + options);
}

std::vector<std::string> lines(const std::string &text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(PluginCheck, TheTemplatePasses) {
  const Outcome outcome = check(in_quotes(kTemplate));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  std::vector<std::string> found = lines(outcome.out);
  ASSERT_FALSE(found.empty());
  const std::string summary = found.back();
  found.pop_back();
  const std::vector<Check> checks = all_checks();
  EXPECT_EQ(static_cast<std::ptrdiff_t>(found.size()),
            std::ranges::count(checks, Extent::kQuick, [](const Check &check) { return check.extent; }));
  EXPECT_EQ(std::ranges::count(found, "ok gemv.F32"), 1);
  EXPECT_EQ(std::ranges::count(found, "skipped kv.copy: the backend offers level 0 only: it has no sessions"), 1);
  const auto n_ok = std::ranges::count_if(found, [](const std::string &line) { return line.starts_with("ok "); });
  const auto n_skipped =
      std::ranges::count_if(found, [](const std::string &line) { return line.starts_with("skipped "); });
  EXPECT_EQ(summary, fmt::format("{} (template 0.1.0, level 0): {} ok, 0 failed, {} skipped", kTemplate, n_ok,
                                 static_cast<std::ptrdiff_t>(found.size()) - n_ok));
  EXPECT_EQ(n_ok + n_skipped, static_cast<std::ptrdiff_t>(found.size()));
}

TEST(PluginCheck, AFaultIsNamedAndTheRestGoesOn) {
  const Outcome outcome = check_faulty("forgets the last row");
  EXPECT_EQ(outcome.exit_code, 1);
  const std::vector<std::string> found = lines(outcome.out);
  ASSERT_EQ(found.size(), 4u) << outcome.out;
  EXPECT_EQ(found[0], "ok dtypes");
  EXPECT_TRUE(found[1].starts_with("FAILED gemv.F32: ")) << found[1];
  EXPECT_NE(found[1].find("relative error of 1.00e+00, expected at most"), std::string::npos) << found[1];
  EXPECT_EQ(found[2], "ok lifetime.session-memory");
  EXPECT_EQ(found[3], kFaulty + " (faulty " BONSAI_VERSION ", level 2): 2 ok, 1 failed, 0 skipped");
}

struct ProcessFault {
  const char *name, *finding, *options = "";
};

void PrintTo(const ProcessFault &fault, std::ostream *out) { *out << fault.name; }

class PluginCheckSurvives : public testing::TestWithParam<ProcessFault> {};

// Enough for the checks before and after the one that hangs.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BONSAI_TEST_SECONDS "30"
#else
#define BONSAI_TEST_SECONDS "5"
#endif

TEST_P(PluginCheckSurvives, AndNamesTheCheck) {
  const Outcome outcome = check_faulty(GetParam().name, GetParam().options);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, fmt::format("ok dtypes\nFAILED gemv.F32: {}\nok lifetime.session-memory\n"
                                     "{} (faulty " BONSAI_VERSION ", level 2): 2 ok, 1 failed, 0 skipped\n",
                                     GetParam().finding, kFaulty));
}

constexpr ProcessFault kProcessFaults[] = {
    {"crashes in gemv", "SIGABRT (Aborted) in gemv"},
    {"crashes after gemv", "SIGABRT (Aborted) when the process ended, after all calls"},
    {"ends the process in gemv", "exit code 7 in gemv, expected a plugin that leaves the process alone"},
    {"hangs in gemv", "no end within " BONSAI_TEST_SECONDS " s, in gemv", "--timeout " BONSAI_TEST_SECONDS},
};
INSTANTIATE_TEST_SUITE_P(Every, PluginCheckSurvives, testing::ValuesIn(kProcessFaults));

// For a debugger, which sees the crash only where it is its own.
TEST(PluginCheck, ACrashEndsTheProgramIfThereIsNoOtherProcess) {
  const Outcome outcome = check_faulty("crashes in gemv", "--in-process");
  EXPECT_EQ(outcome.exit_code, 128 + SIGABRT);
  EXPECT_EQ(outcome.out, "ok dtypes\n");
}

TEST(PluginCheck, WhatAPluginPrintsIsNoFinding) {
  const Outcome outcome = check_faulty("prints in gemv");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out.find("words of the plugin"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("words of the plugin"), std::string::npos) << outcome.err;
}

// But of the check for that, which begins with loading.
TEST(PluginCheck, WhatAPluginPrintsWhileItIsLoadedIsOneToo) {
  for (const std::string fault : {"prints in a constructor", "prints in loading"}) {
    const Outcome outcome = test::run_shell("BONSAI_FAULTY_ENTRY='" + fault + "' bonsai-plugin-check " +
                                            in_quotes(kFaulty) + " --only dtypes --only lifetime.silence");
    EXPECT_EQ(outcome.exit_code, 1) << fault;
    EXPECT_EQ(outcome.out,
              fmt::format("ok dtypes\nFAILED lifetime.silence: the backend prints 'words of the plugin\\x0a', expected "
                          "silence: text goes to the log\n{} (faulty " BONSAI_VERSION
                          ", level 2): 1 ok, 1 failed, 0 skipped\n",
                          kFaulty));
  }
}

// What cannot be checked at all is one line with its path, and no list of failures.
TEST(PluginCheck, WhatDoesNotOpenIsOneLine) {
  const std::string not_elf = BONSAI_SOURCE_DIR "/README.md";
  const std::pair<std::string, std::string> cases[] = {
      {"/nowhere/libmine.so", "/nowhere/libmine.so: no such file"},
      {"/tmp", "/tmp: a directory, not a shared object"},
      {in_quotes(not_elf), not_elf + ": not a shared object: the file does not begin with ELF's magic number"},
      {in_quotes(kFaulty) + " --backend-opt 'fault=crashes in device_open'",
       kFaulty + ": SIGABRT (Aborted) in device_open"},
      {in_quotes(kFaulty) + " --backend-opt 'fault=hangs in device_open' --timeout 1",
       kFaulty + ": no end within 1 s, in device_open"},
  };
  for (const auto &[arguments, line] : cases) {
    const Outcome outcome = check(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(outcome.err, "bonsai-plugin-check: " + line + "\n");
  }
  for (const std::string options : {"--device 9", "--backend-opt colour=blue"}) {
    const Outcome outcome = check(in_quotes(kTemplate) + " " + options);
    EXPECT_EQ(outcome.exit_code, 1) << options;
    EXPECT_EQ(outcome.out, "") << options;
    EXPECT_TRUE(outcome.err.starts_with("bonsai-plugin-check: " + kTemplate + ": template: ")) << outcome.err;
  }
}

TEST(PluginCheck, ListsTheChecksThatWouldRun) {
  for (const bool is_long : {false, true}) {
    const Outcome outcome = check(is_long ? "--list --long" : "--list");
    EXPECT_EQ(outcome.exit_code, 0);
    std::vector<std::string> names, expected;
    for (const std::string &line : lines(outcome.out)) names.push_back(line.substr(0, line.find(' ')));
    for (const Check &check : all_checks()) {
      if (is_long || check.extent == Extent::kQuick) expected.push_back(check.name);
    }
    EXPECT_EQ(names, expected);
  }
  EXPECT_EQ(check("--list --only 'arguments.w*'").out,
            "arguments.weights  bad weights and products are refused and change nothing\n");
}

TEST(PluginCheck, ExhaustiveChecksWantToBeAskedFor) {
  EXPECT_EQ(
      check(in_quotes(kTemplate) + " --only 'gemv.F32*' --long").out,
      "ok gemv.F32\nok gemv.F32.exhaustive\n" + kTemplate + " (template 0.1.0, level 0): 2 ok, 0 failed, 0 skipped\n");
  EXPECT_EQ(check(in_quotes(kTemplate) + " --only gemv.F32.exhaustive").err,
            "bonsai-plugin-check: --only: 'gemv.F32.exhaustive' means exhaustive checks, expected --long too\n");
}

TEST(PluginCheck, UsageErrorsExitWithTwo) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "expected the shared object to check; see bonsai-plugin-check --help"},
      {"--device -1", "--device: expected 0 to 4294967295, found -1"},
      {"--timeout 0", "--timeout: expected 1 to 86400 seconds, found 0"},
      {"--backend-opt speed", "--backend-opt: expected KEY=VALUE, found 'speed'"},
      {"--backend-opt device=1", "--backend-opt: expected --device 1 instead"},
      {"--only 'gemv.F33'", "--only: no check is named 'gemv.F33'; --list lists them"},
      {"--only 'dtypes' --only 'x*'", "--only: no check is named 'x*'; --list lists them"},
  };
  for (const auto &[options, line] : cases) {
    const Outcome outcome = check(options.empty() ? "" : in_quotes(kTemplate) + " " + options);
    EXPECT_EQ(outcome.exit_code, 2) << options;
    EXPECT_EQ(outcome.out, "") << options;
    EXPECT_EQ(outcome.err, "bonsai-plugin-check: " + line + "\n");
  }
  for (const char *options : {"another.so", "--device first", "--colour blue"}) {
    const Outcome outcome = check(in_quotes(kTemplate) + " " + options);
    EXPECT_EQ(outcome.exit_code, 2) << options;
    EXPECT_TRUE(outcome.err.ends_with("; see bonsai-plugin-check --help\n")) << outcome.err;
  }
}

TEST(PluginCheck, ASignalEndsTheCheckThatRuns) {
  const test::TemporaryDirectory directory;
  const std::string out = directory.file("out");
  const Outcome outcome =
      test::run_shell("bonsai-plugin-check " + in_quotes(kFaulty) +
                      " --backend-opt 'fault=hangs in gemv' --only dtypes --only gemv.F32 >" + in_quotes(out) +
                      " & tool=$!\n"
                      "until grep -qs dtypes " +
                      in_quotes(out) + " || ! kill -0 $tool; do sleep 0.01; done\n" + "kill -TERM $tool; wait $tool");
  EXPECT_EQ(outcome.exit_code, 143);
  EXPECT_EQ(outcome.err, "bonsai-plugin-check: interrupted\n");
  EXPECT_EQ(test::read_file(out), "ok dtypes\n");
}

TEST(PluginCheck, AStdoutThatTakesNothingIsAFailure) {
  const Outcome outcome = check(in_quotes(kTemplate) + " --only dtypes >/dev/full");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai-plugin-check: cannot print: No space left on device\n");
}

TEST(PluginCheck, SaysItsVersion) {
  const Outcome outcome = check("--version");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "bonsai-plugin-check " BONSAI_VERSION "\n");
}

TEST(PluginCheck, HelpGoesToStdout) {
  const Outcome outcome = check("--help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.out.starts_with("Usage: bonsai-plugin-check [options] FILE.so\n")) << outcome.out;
  EXPECT_EQ(outcome.err, "");
}

}  // namespace
}  // namespace bonsai::check
