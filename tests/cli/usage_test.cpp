// The command line itself: help, versions, and what is said to those who mistype.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/program.h"

namespace bonsai::cli {
namespace {

using Arguments = std::vector<std::string>;
const Arguments kCommands = {"run",   "chat",     "bench",      "info",   "backends",
                             "embed", "tokenize", "perplexity", "logits", "validate"};

TEST(Program, HelpListsEveryCommand) {
  const Outcome outcome = run_program({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const std::string &command : kCommands)
    EXPECT_NE(outcome.out.find("\n  " + command + " "), std::string::npos) << command;
}

TEST(Program, EveryCommandHasHelpOnStdout) {
  for (const std::string &command : kCommands) {
    const Outcome outcome = run_program({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_EQ(outcome.out.rfind("Usage: bonsai " + command + " ", 0), 0u) << outcome.out;
    EXPECT_NE(outcome.out.find("--json"), std::string::npos) << command;
    EXPECT_EQ(outcome.err, "") << command;
  }
}

TEST(Program, HelpSaysHowMuchIsGeneratedWithoutN) {
  EXPECT_NE(run_program({"run", "--help"}).out.find("most tokens to generate; -1: until the text ends (256)\n"),
            std::string::npos);
  EXPECT_NE(run_program({"chat", "--help"}).out.find("(until the answer ends)\n"), std::string::npos);
}

TEST(Program, SaysItsVersion) {
  const Outcome outcome = run_program({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out.rfind("bonsai 0.", 0), 0u) << outcome.out;
}

// A file can be called anything. What is said of it has no lines of its own, and does nothing to a terminal.
TEST(Program, NamesOfFilesAndOptionsStayOnTheirLine) {
  const std::string name = "./no\npe\x1b[31m.so", shown = "no\\x0ape\\x1b[31m.so";
  const std::vector<Arguments> commands = {{"validate", name},
                                           {"info", name},
                                           {"run", "-m", name, "-p", "x"},
                                           {"run", "-m", seedling(), "-f", name},
                                           {"run", "-m", seedling(), "-p", "x", "--load-session", name},
                                           {"run", "-m", seedling(), "-p", "x", "--grammar", name},
                                           {"run", "-m", seedling(), "-p", "x", "--backend-strict", "--backend", name},
                                           {"run", "--" + name}};
  for (const Arguments &arguments : commands) {
    const Outcome outcome = run_program(arguments);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
    EXPECT_NE(outcome.err.find(shown), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos) << outcome.err;
  }
  const std::string table = run_program({"backends", name}).out;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2) << table;
  EXPECT_NE(table.find(shown), std::string::npos) << table;
  EXPECT_EQ(table.find('\x1b'), std::string::npos) << table;
}

struct Mistake {
  std::string name;
  Arguments arguments;
  std::string message;
};
void PrintTo(const Mistake &mistake, std::ostream *out) { *out << mistake.name; }

class UsageMistake : public testing::TestWithParam<Mistake> {};

TEST_P(UsageMistake, GetsOneLineAndExitCodeTwo) {
  const Outcome outcome = run_program(GetParam().arguments);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  const std::string who = GetParam().arguments.empty() || GetParam().name == "unknown_command"
                              ? "bonsai"
                              : "bonsai " + GetParam().arguments.front();
  EXPECT_EQ(outcome.err, who + ": " + GetParam().message + " (see '" + who + " --help')\n");
}

INSTANTIATE_TEST_SUITE_P(
    CommandLines, UsageMistake,
    testing::Values(
        Mistake{"no_command", {}, "expected a command"},
        Mistake{"unknown_command", {"frobnicate"}, "unknown command 'frobnicate'"},
        Mistake{"unknown_option", {"run", "--frob"}, "unrecognised option '--frob'"},
        Mistake{"no_abbreviations", {"run", "--prom", "x"}, "unrecognised option '--prom'"},
        Mistake{"missing_value", {"run", "-n"}, "the required argument for option '--predict' is missing"},
        Mistake{"twice", {"run", "-n", "1", "-n", "2"}, "option '--predict' cannot be specified more than once"},
        Mistake{"stray_argument",
                {"run", "model.gguf"},
                "'model.gguf' is an argument too many: everything, such as the model (-m FILE), is given by name"},
        Mistake{"stray_file",
                {"info", "a.gguf", "b.gguf"},
                "'b.gguf' is an argument too many: everything but the file is given by name"},
        // What llama.cpp's programs take, and boost reads as our -n, -t and -c with the rest as a value.
        Mistake{"foreign_ngl", {"run", "-ngl", "99"}, "unrecognised option '-ngl'"},
        Mistake{"foreign_np", {"serve", "-np", "4"}, "unrecognised option '-np'"},
        Mistake{"foreign_tb", {"run", "-tb", "2"}, "unrecognised option '-tb'"},
        Mistake{"foreign_cnv", {"run", "-cnv"}, "unrecognised option '-cnv'"},
        Mistake{"foreign_fa",
                {"run", "-fa", "on"},
                "'on' is an argument too many: '-fa' was read as -f with 'a', and everything, such as the model (-m "
                "FILE), is given by name"},
        Mistake{
            "n_stuck", {"run", "-n10x"}, "--predict: expected a whole number from 1 to 4294967295, or -1, found '10x'"},
        Mistake{
            "n_zero", {"run", "-n", "0"}, "--predict: expected a whole number from 1 to 4294967295, or -1, found '0'"},
        Mistake{"n_negative",
                {"run", "-n", "-2"},
                "--predict: expected a whole number from 1 to 4294967295, or -1, found '-2'"},
        Mistake{"n_word",
                {"run", "-n", "ten"},
                "--predict: expected a whole number from 1 to 4294967295, or -1, found 'ten'"},
        Mistake{"n_trailing",
                {"run", "-n", "10x"},
                "--predict: expected a whole number from 1 to 4294967295, or -1, found '10x'"},
        Mistake{"context_negative",
                {"run", "-c", "-2"},
                "--context: expected a whole number from 0 to 4294967295, or -1, found '-2'"},
        Mistake{"threads_huge",
                {"run", "-t", "99999999999"},
                "--threads: expected a whole number from 1 to 1024, found '99999999999'"},
        Mistake{
            "threads_many", {"run", "-t", "1025"}, "--threads: expected a whole number from 1 to 1024, found '1025'"},
        Mistake{"top_k_negative",
                {"run", "--top-k", "-2"},
                "--top-k: expected a whole number from 0 to 4294967295, or -1, found '-2'"},
        Mistake{"seed_negative",
                {"run", "--seed", "-2"},
                "--seed: expected a whole number from 0 to 18446744073709551615, or -1, found '-2'"},
        Mistake{"temp_negative", {"run", "--temp", "-0.5"}, "--temp: expected a number >= 0, found '-0.5'"},
        Mistake{"temp_nan", {"run", "--temp", "nan"}, "--temp: expected a number >= 0, found 'nan'"},
        Mistake{"temp_infinite", {"run", "--temp", "inf"}, "--temp: expected a number >= 0, found 'inf'"},
        Mistake{"temp_too_large",
                {"run", "--temp", "1e39"},
                "--temp: expected a number >= 0, found '1e39', which is out of the range of 32-bit numbers"},
        Mistake{"top_p_too_small",
                {"run", "--top-p", "1e-60"},
                "--top-p: expected a number from 0 to 1, found '1e-60', which is out of the range of 32-bit numbers"},
        Mistake{"stdin_for_prompt_and_grammar",
                {"run", "-p", "-", "--grammar", "-"},
                "stdin is asked for twice: by -p and --grammar"},
        Mistake{"stdin_for_file_and_schema",
                {"run", "-f", "-", "--json-schema", "-"},
                "stdin is asked for twice: by -f and --json-schema"},
        Mistake{"stdin_for_prompt_and_tools",
                {"run", "--chat", "-p", "-", "--tools", "-"},
                "stdin is asked for twice: by -p and --tools"},
        Mistake{"top_p", {"run", "--top-p", "1.5"}, "--top-p: expected a number from 0 to 1, found '1.5'"},
        Mistake{"min_p", {"run", "--min-p", "-1"}, "--min-p: expected a number from 0 to 1, found '-1'"},
        Mistake{"repeat", {"run", "--repeat-penalty", "0"}, "--repeat-penalty: expected a number > 0, found '0'"},
        Mistake{"bias", {"run", "--logit-bias", "5"}, "--logit-bias: expected ID=NUMBER or ID=-inf, found '5'"},
        Mistake{
            "bias_nan", {"run", "--logit-bias", "5=nan"}, "--logit-bias: expected ID=NUMBER or ID=-inf, found '5=nan'"},
        Mistake{"preset",
                {"run", "--preset", "wild"},
                "--preset: expected greedy, balanced, creative or code, found 'wild'"},
        Mistake{"stop", {"run", "--stop", ""}, "--stop: expected a text, found an empty one"},
        Mistake{"kv", {"run", "--kv", "f64"}, "--kv: expected f16, q8_0 or f32, found 'f64'"},
        Mistake{
            "backend_opt", {"run", "--backend-opt", "cpu.isa"}, "--backend-opt: expected KEY=VALUE, found 'cpu.isa'"},
        Mistake{"log_level",
                {"run", "--log-level", "loud"},
                "--log-level: expected error, warning, info, debug or off, found 'loud'"},
        Mistake{"two_prompts", {"run", "-p", "a", "-f", "b"}, "-p and -f both give the text: choose one"},
        Mistake{"no_prompt", {"run", "-m", "x.gguf"}, "no prompt: expected -p TEXT, -f FILE or '-p -' for stdin"},
        Mistake{"no_text", {"tokenize"}, "no text: expected -p TEXT, -f FILE or '-p -' for stdin"},
        Mistake{"no_tokens", {"logits"}, "no tokens: expected --tokens 1,2,3"},
        Mistake{"bad_tokens", {"logits", "--tokens", "1,,3"}, "--tokens: expected ids as in 1,2,3, found '1,,3'"},
        Mistake{"window_one",
                {"perplexity", "-p", "x", "--window", "1"},
                "--window: expected a whole number from 2 to 4294967295, found '1'"},
        Mistake{"no_file_to_validate", {"validate"}, "no file: expected the model file to check"},
        Mistake{"two_files", {"validate", "a", "-m", "b"}, "the model is given twice: by -m and as an argument"}),
    [](const auto &info) { return info.param.name; });

}  // namespace
}  // namespace bonsai::cli
