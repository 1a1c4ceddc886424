// bonsai-bench-turns: that every plugin has its turns and is held against the first one. Nothing here asserts a time.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/tool.h"

namespace bonsai::test {
namespace {

const std::string kPlugin = BONSAI_CPU_PLUGIN;
const std::string kModel = BONSAI_SOURCE_DIR "/models/seedling-q1_0.gguf";

Outcome run_turns(const std::string &arguments) { return run_shell("bonsai-bench-turns " + arguments); }

std::vector<std::string> lines_of(const std::string &text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// There is one where there are pairs, which takes times.
void expect_median(const std::string &median, int pairs) {
  if (pairs == 0)
    EXPECT_EQ(median, "nan");
  else
    EXPECT_GT(std::stod(median), 0);
}

TEST(BenchTurns, HoldsEveryPluginAgainstTheFirst) {
  const std::string other = kPlugin + ",cpu.isa=portable";
  const Outcome outcome =
      run_turns("--plugin " + in_quotes(kPlugin) + " --plugin " + in_quotes(kPlugin) + " --plugin " + in_quotes(other) +
                " -t 2 -p 5 -n 3 -r 3 --processes 2 " + in_quotes(kModel));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3u) << outcome.out;
  EXPECT_NE(lines[0].find("times as fast as " + kPlugin), std::string::npos) << lines[0];
  const std::string of_pairs = " +([0-9.]+|nan) +\\( *([0-9]+)\\)";
  const std::string of_distances = of_pairs + " \\| +([0-9.]+) \\|" + of_pairs + " \\|" + of_pairs;
  const std::regex form("(.*): decoding" + of_distances + ", prompts" + of_distances);
  for (size_t i : {1, 2}) {
    std::smatch found;
    ASSERT_TRUE(std::regex_match(lines[i], found, form)) << lines[i];
    EXPECT_EQ(found[1], i == 1 ? kPlugin : other);
    const int all = std::stoi(found[3]), near = std::stoi(found[6]), far = std::stoi(found[8]);
    EXPECT_EQ(all, 3 * 2) << "rounds: " << lines[i];
    EXPECT_LE(near + far, all) << lines[i];  // fewer where the cores moved within a round
    for (size_t j : {2, 5, 7}) {
      EXPECT_EQ(found[j + 1], found[j + 8]) << lines[i];
      expect_median(found[j], std::stoi(found[j + 1]));
      expect_median(found[j + 7], std::stoi(found[j + 1]));
    }
    for (size_t quick : {4, 11}) EXPECT_GT(std::stod(found[quick]), 0) << lines[i];
  }
}

TEST(BenchTurns, SaysWhereNothingCanBePrinted) {
  const Outcome outcome = run_turns("--plugin " + in_quotes(kPlugin) + " --plugin " + in_quotes(kPlugin) +
                                    " -t 1 -p 2 -n 2 -r 1 --processes 1 " + in_quotes(kModel) + " >/dev/full");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai-bench-turns: cannot print: No space left on device\n");
}

TEST(BenchTurns, EndsWhenItIsInterrupted) {
  const Outcome outcome =
      run_shell("bonsai-bench-turns --plugin " + in_quotes(kPlugin) + " --plugin " + in_quotes(kPlugin) +
                " -t 1 -p 2 -n 2 -r 1000000 " + in_quotes(kModel) + " & sleep 1; kill -TERM $!; wait $!");
  EXPECT_EQ(outcome.exit_code, 143);
  EXPECT_EQ(outcome.out + outcome.err, "");
}

TEST(BenchTurnsRefuses, WrongCalls) {
  const std::string two = "--plugin " + in_quotes(kPlugin) + " --plugin " + in_quotes(kPlugin) + " ";
  struct Case {
    std::string arguments, error;
  };
  for (const Case &c : {
           Case{"--plugin " + in_quotes(kPlugin) + " " + in_quotes(kModel), "--plugin: expected two or more"},
           Case{two + "--rounds 0 " + in_quotes(kModel),
                "--rounds: expected a whole number from 1 to 1000000, found 0"},
           Case{two + "-n -1 " + in_quotes(kModel),
                "--decode: expected a whole number from 1 to 1000000, found 4294967295"},
           Case{two + "--plugin " + in_quotes(kPlugin) + ",cpu.isa " + in_quotes(kModel),
                "expected KEY=VALUE, found 'cpu.isa'"},
       }) {
    const Outcome outcome = run_turns(c.arguments);
    EXPECT_EQ(outcome.exit_code, 2) << c.arguments;
    EXPECT_EQ(outcome.out, "") << c.arguments;
    EXPECT_EQ(outcome.err, "bonsai-bench-turns: " + c.error + "; see bonsai-bench-turns --help\n") << c.arguments;
  }
  EXPECT_EQ(run_turns(two).exit_code, 2) << "no model";
}

TEST(BenchTurnsRefuses, PluginsAndModelsThatCannotBeUsed) {
  const std::string plugin = "--plugin " + in_quotes(kPlugin) + " ";
  const Outcome no_plugin = run_turns(plugin + "--plugin /nowhere/libbonsai_cpu.so " + in_quotes(kModel));
  EXPECT_EQ(no_plugin.exit_code, 1);
  EXPECT_NE(no_plugin.err.find("/nowhere/libbonsai_cpu.so"), std::string::npos) << no_plugin.err;
  const Outcome no_option =
      run_turns(plugin + "--plugin " + in_quotes(kPlugin) + ",cpu.isa=abacus " + in_quotes(kModel));
  EXPECT_EQ(no_option.exit_code, 1);
  EXPECT_NE(no_option.err.find("abacus"), std::string::npos) << no_option.err;
  const Outcome no_model = run_turns(plugin + plugin + "/nowhere/model.gguf");
  EXPECT_EQ(no_model.exit_code, 1);
  EXPECT_NE(no_model.err.find("/nowhere/model.gguf"), std::string::npos) << no_model.err;
  for (const Outcome *outcome : {&no_plugin, &no_option, &no_model}) EXPECT_EQ(lines_of(outcome->err).size(), 1u);
}

}  // namespace
}  // namespace bonsai::test
