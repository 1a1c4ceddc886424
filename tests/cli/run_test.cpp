// `bonsai run` on the seedling.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/cli/pty.h"
#include "tests/model/tiny_model.h"

namespace bonsai::cli {
namespace {

using nlohmann::json;

// A greedy continuation that was computed outside this project.
json golden_greedy() { return json::parse(std::ifstream(BONSAI_TEST_DATA "/seedling-golden.json"))["greedy"]; }

TEST(Run, WithoutArgumentsTheSeedlingTellsAStory) {
  const Outcome outcome = run_program({"run", "-n", "20"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("Once upon a time", 0), 0u) << outcome.out;
  EXPECT_GT(outcome.out.size(), 40u);
  EXPECT_EQ(outcome.out.back(), '\n');
  EXPECT_NE(outcome.err.find("using the seedling, " + seedling()), std::string::npos) << outcome.err;
}

TEST(Run, GreedyTextIsTheKnownOne) {
  const Outcome outcome = run_program({"run", "-p", "Once upon a time", "--temp", "0", "-n", "16"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string text = outcome.out.substr(0, outcome.out.size() - 1);
  EXPECT_GT(text.size(), 40u);
  EXPECT_EQ(golden_greedy()["text"].get<std::string>().rfind(text, 0), 0u) << text;
}

// A file that asks for the likeliest token: texts do not depend on the seed unless an option or a preset says so.
TEST(Run, TheFileSaysHowTokensAreChosenUnlessOptionsDo) {
  const test::TinyModelFile file({.metadata = [](gguf::Writer &writer) {
    writer.set_float32("general.sampling.temp", 5);
    writer.set_int32("general.sampling.top_k", 1);
  }});
  const auto tokens = [&](const char *seed, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", "-m",           file.path(), "-p",     "a", "-n",
                                          "24",  "--ignore-eos", "--json",    "--seed", seed};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out)["tokens"];
  };
  EXPECT_EQ(tokens("1", {}), tokens("2", {}));
  EXPECT_NE(tokens("1", {"--top-k", "0"}), tokens("2", {"--top-k", "0"}));
  EXPECT_EQ(tokens("1", {"--preset", "greedy"}), tokens("2", {"--preset", "greedy"}));
  EXPECT_NE(tokens("1", {"--preset", "creative"}), tokens("2", {"--preset", "creative"}));
}

TEST(Run, AContextOfZeroIsAllThatTheModelKnows) {
  const test::TinyModelFile file({.context = 5000});
  const std::string prompt = write_file("long.txt", std::string(20000, 'z'));
  for (const char *all : {"0", "-1"}) {
    const Outcome outcome = run_program({"run", "-m", file.path(), "-c", all, "-f", prompt});
    EXPECT_NE(outcome.err.find("(context 5000, used 0)"), std::string::npos) << outcome.err;
  }
  EXPECT_NE(run_program({"run", "-m", file.path(), "-f", prompt}).err.find("(context 4096, used 0)"),
            std::string::npos);
}

TEST(Run, TheTemplateBackendTellsTheSameGreedyStory) {
  const Outcome outcome = run_program({"run", "-p", "Once upon a time", "--preset", "greedy", "-n", "16", "--backend",
                                       backend_file("template"), "--backend-strict"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("\nbackend  template "), std::string::npos) << outcome.err;
  EXPECT_EQ(golden_greedy()["text"].get<std::string>().rfind(outcome.out.substr(0, outcome.out.size() - 1), 0), 0u);
}

TEST(Run, TheSummaryNamesSpeedBackendMemoryAndSeed) {
  const Outcome outcome = run_program({"run", "-n", "4", "--seed", "77"});
  for (const char *line : {"\nprompt   5 tokens, ", "\ndecode   4 tokens, ", "\nbackend  cpu ", ", kernel ",
                           "\nmemory   weights ", ", peak ", "\nseed     77\n"})
    EXPECT_NE(outcome.err.find(line), std::string::npos) << line << " in " << outcome.err;
}

TEST(Run, JsonCarriesTextTokensAndSummary) {
  const Outcome outcome = run_program({"run", "-p", "Once upon a time", "--temp", "0", "-n", "48", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  const json golden = golden_greedy();
  EXPECT_EQ(result["prompt"], "Once upon a time");
  EXPECT_EQ("Once upon a time" + result["text"].get<std::string>(), golden["text"]);
  EXPECT_EQ(result["tokens"], json(std::vector<int>(golden["tokens"].begin() + 5, golden["tokens"].end())));
  EXPECT_EQ(result["finish_reason"], "length");
  EXPECT_EQ(result["prompt_tokens"], 5);
  EXPECT_EQ(result["backend"], "cpu");
  EXPECT_GT(result["memory"]["peak_bytes"], 0);
}

// What a greedy run of 8 tokens writes.
std::string greedy_text(std::vector<std::string> arguments, const std::string &input = "") {
  arguments.insert(arguments.end(), {"--temp", "0", "-n", "8"});
  const Outcome outcome = run_program(arguments, input);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.out;
}

TEST(Run, PromptsComeFromStdinAndFilesWithoutTheirLastNewline) {
  const std::string expected = greedy_text({"run", "-p", "The King said"});
  EXPECT_EQ(greedy_text({"run", "-p", "-"}, "The King said\n"), expected);
  EXPECT_EQ(greedy_text({"run", "-f", "-"}, "The King said"), expected);
  EXPECT_EQ(greedy_text({"run", "-f", write_file("prompt.txt", "The King said\n")}), expected);
}

TEST(Run, WithoutPromptAndFileAPipeGivesThePrompt) {
  const std::string expected = greedy_text({"run", "-p", "The King said"});
  EXPECT_EQ(greedy_text({"run"}, "The King said\n"), expected);
  EXPECT_EQ(greedy_text({"run", "-m", seedling()}, "The King said"), expected);
  EXPECT_EQ(greedy_text({"run", "-p", "The King said"}, "And the Queen"), expected) << "what was asked for goes first";
  EXPECT_EQ(greedy_text({"run", "--chat"}, "Hello\n"), greedy_text({"run", "--chat", "-p", "Hello"}));
  const std::string story = greedy_text({"run", "-p", "Once upon a time"});
  EXPECT_EQ(greedy_text({"run"}, ""), story);
  const std::string grammar = "root ::= \" yes\"\n";
  EXPECT_EQ(greedy_text({"run", "--grammar", "-"}, grammar), "Once upon a time yes\n")
      << "what the grammar took is no prompt";
}

TEST(Run, TheHelpNamesTheDefaultPrompt) {
  EXPECT_NE(run_program({"run", "--help"}).out.find("the seedling continues 'Once upon a time'"), std::string::npos);
}

TEST(Run, EqualSeedsTellEqualStories) {
  const auto out = [](const std::string &seed) { return run_program({"run", "-n", "24", "--seed", seed}).out; };
  EXPECT_EQ(out("1"), out("1"));
  EXPECT_NE(out("1"), out("2"));
}

TEST(Run, AStopStringEndsTheTextBeforeIt) {
  const Outcome outcome =
      run_program({"run", "-p", "Once upon a time", "--temp", "0", "--stop", "xyz", "--stop", "forest"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "Once upon a time, in the middle of the \n");
  EXPECT_NE(outcome.err.find("ended by stop_string"), std::string::npos) << outcome.err;
}

TEST(Run, ALogitBiasForbidsAToken) {
  const int forbidden = golden_greedy()["tokens"][5];
  const Outcome outcome =
      run_program({"run", "--temp", "0", "-n", "1", "--json", "--logit-bias", std::to_string(forbidden) + "=-inf"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(json::parse(outcome.out)["tokens"][0], forbidden);
}

TEST(Run, TellsHowLikelyEachTokenWas) {
  const Outcome outcome = run_program({"run", "--temp", "0", "-n", "4", "--json", "--logprobs", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  ASSERT_EQ(result["logprobs"].size(), 4u);
  std::string text;
  for (size_t i = 0; i < 4; ++i) {
    const json &place = result["logprobs"][i];
    EXPECT_EQ(place["token"], result["tokens"][i]);
    ASSERT_EQ(place["top"].size(), 2u);
    EXPECT_EQ(place["top"][0]["token"], place["token"]);  // the likeliest was chosen
    EXPECT_EQ(place["top"][0]["logprob"], place["logprob"]);
    EXPECT_LE(place["top"][1]["logprob"], place["logprob"]);
    EXPECT_LE(place["logprob"], 0.0);
    text += place["text"];
  }
  EXPECT_EQ(text, result["text"]);
  EXPECT_EQ(json::parse(run_program({"run", "-n", "1", "--json"}).out)["logprobs"], json::array());
  EXPECT_EQ(run_program({"run", "--logprobs", "2"}).err,
            "bonsai run: --logprobs is for --json (see 'bonsai run --help')\n");
}

TEST(Run, EveryKvTypeSpeaks) {
  for (const char *kv : {"f16", "q8_0", "f32"}) {
    const Outcome outcome = run_program({"run", "--kv", kv, "-n", "4", "--temp", "0"});
    EXPECT_EQ(outcome.out, "Once upon a time, in the middle\n") << kv << outcome.err;
  }
}

TEST(Run, AnEmptyPromptStartsFromBos) {
  const Outcome outcome = run_program({"run", "-p", "", "-n", "4", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["prompt_tokens"], 1);
}

TEST(Run, StopsAtTheEndOfTheContextWithAWarning) {
  const Outcome outcome = run_program({"run", "-c", "12", "-n", "100", "--ignore-eos"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("warning: the context of 12 tokens is full: -c gives more, up to the model's 1024\n"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("decode   7 tokens"), std::string::npos) << outcome.err;
}

TEST(Run, MoreContextIsOfferedOnlyWhereTheModelHasMore) {
  const test::TinyModelFile model({.context = 8});
  const Outcome ended = run_program({"run", "-m", model.path(), "-p", "x", "--ignore-eos"});
  EXPECT_NE(ended.err.find("warning: the context of 8 tokens is full\n"), std::string::npos) << ended.err;
  const std::string text = write_file("long.txt", std::string(20, 'x'));
  EXPECT_EQ(run_program({"run", "-m", model.path(), "-f", text}).err,
            "bonsai run: context full: 20 tokens to add, room for 8 (context 8, used 0)\n");
  EXPECT_EQ(
      run_program({"run", "-m", model.path(), "-p", "xy", "-c", "2"}).err,
      "bonsai run: context full: all 2 tokens are used, no room to continue: -c gives more, up to the model's 8\n");
}

TEST(Run, OneTokenAndOneThreadAreNotPlural) {
  const Outcome outcome = run_program({"run", "-p", "", "-n", "1", "-t", "1"});
  for (const char *part : {"\nprompt   1 token, ", "\ndecode   1 token, ", ", 1 thread, "})
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in " << outcome.err;
}

// Whoever needs a tokenizer has the error; a warning before it would say the same.
TEST(Run, AModelWhoseTokenizerIsUnknownIsRefusedInOneLine) {
  const test::TinyModelFile model(
      {.metadata = [](gguf::Writer &writer) { writer.set_string("tokenizer.ggml.pre", "zwen2"); }});
  const Outcome outcome = run_program({"run", "-m", model.path(), "-p", "x"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai run: " + model.path() +
                             ": tokenizer.ggml.pre is 'zwen2'; known pre-tokenizers are 'qwen2', 'deepseek-r1-qwen', "
                             "'f2llmv2', 'kormo'\n");
}

struct Failing {
  std::string name;
  std::vector<std::string> arguments;
  std::string message;
};
void PrintTo(const Failing &failing, std::ostream *out) { *out << failing.name; }

class RunFails : public testing::TestWithParam<Failing> {};

TEST_P(RunFails, WithOneLineAndExitCodeOne) {
  std::vector<std::string> arguments = {"run", "-m", seedling(), "-n", "1"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  const Outcome outcome = run_program(arguments);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "bonsai run: " + GetParam().message + "\n");
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, RunFails,
    testing::Values(Failing{"invalid_utf8", {"-p", "abc\xff"}, "invalid UTF-8 at byte offset 3"},
                    Failing{"missing_file",
                            {"-f", "/nonexistent/prompt"},
                            "/nonexistent/prompt: cannot read: No such file or directory"},
                    Failing{"directory", {"-f", "/"}, "/: cannot read: Is a directory"},
                    Failing{"prompt_too_long",
                            {"-c", "2", "-p", "one two three four"},
                            "context full: 5 tokens to add, room for 2 (context 2, used 0): -c gives more, up to "
                            "the model's 1024"},
                    Failing{"context_beyond_the_model",
                            {"-p", "x", "-c", "5000"},
                            "context of 5000 tokens: the model knows no more than 1024"},
                    Failing{"bias_outside_the_vocabulary",
                            {"-p", "x", "--logit-bias", "4096=1"},
                            "logit bias: token 4096 is outside the vocabulary of 4096"}),
    [](const auto &info) { return info.param.name; });

TEST(Run, MissingAndForeignModelFilesAreRefused) {
  const std::string missing = "/nonexistent/model.gguf", text = write_file("text.gguf", "this is no model");
  for (const std::string &path : {missing, text}) {
    const Outcome outcome = run_program({"run", "-m", path, "-p", "x"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.err.rfind("bonsai run: " + path + ": ", 0), 0u) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Run, AMissingBackendFallsBackUnlessStrict) {
  const Outcome lenient = run_program({"run", "-n", "2", "--backend", "abacus"});
  EXPECT_EQ(lenient.exit_code, 0);
  EXPECT_NE(lenient.err.find("warning: backend 'abacus' could not be opened, falling back to the CPU"),
            std::string::npos)
      << lenient.err;
  const Outcome strict = run_program({"run", "-n", "2", "--backend", "abacus", "--backend-strict"});
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_EQ(strict.out, "");
  EXPECT_NE(strict.err.find("bonsai run: backend 'abacus' could not be opened"), std::string::npos) << strict.err;
}

TEST(Run, AnUnknownBackendOptionIsAnError) {
  const Outcome outcome = run_program({"run", "-n", "2", "--backend-opt", "cpu.thraeds=2"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("'cpu.thraeds'"), std::string::npos) << outcome.err;
}

// The prompt fills the pipe, so that the program waits for its reader when the signal comes.
TEST(Run, CtrlCEndsTheTextAndStillGivesTheSummary) {
  std::string prompt = "Once";
  while (prompt.size() < 4500) prompt += " the King was there";
  RunningProgram program({"run", "-m", seedling(), "-p", prompt, "--ignore-eos"});
  program.wait_for_output();
  program.send_signal(SIGINT);
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_EQ(outcome.out.rfind(prompt, 0), 0u);
  EXPECT_NE(outcome.err.find("ended by cancelled"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("\nseed "), std::string::npos) << outcome.err;
}

TEST(Run, StopsQuietlyWhenTheReaderHasGone) {
  RunningProgram program({"run", "-m", seedling(), "-p", "Once upon a time", "--ignore-eos", "-n", "600"});
  EXPECT_EQ(program.read_some(4), "Once");
  program.close_output();
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
}

TEST(Run, AFullDiskIsAnError) {
  const Outcome outcome = run_program_into("/dev/full", {"run", "-m", seedling(), "-p", "x", "-n", "1"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai run: cannot write to stdout: No space left on device\n");
}

// Who has left a pipe open would otherwise wait without a word.
TEST(Run, TellsThatItWaitsForAPrompt) {
  const std::string line = "waiting for a text on stdin: -p TEXT gives one, </dev/null says that there is none\n";
  const std::string said = "'" + write_file("said", "") + "'";
  const std::string when_said =
      "for i in $(seq 600); do ! grep -q waiting " + said + " || break; sleep 0.1; done; echo Once";
  const Outcome late =
      run_in_shell("(" + when_said + ") | \"$@\" 2>" + said + "; status=$?; cat " + said + " >&2; exit $status",
                   {"run", "-n", "1", "--temp", "0"});
  EXPECT_EQ(late.exit_code, 0) << late.err;
  EXPECT_TRUE(late.out.starts_with("Once")) << late.out;
  EXPECT_NE(late.err.find(line), std::string::npos) << late.err;
  const Outcome prompt = run_in_shell("echo Once >" + said + "; \"$@\" <" + said, {"run", "-n", "1", "--temp", "0"});
  EXPECT_EQ(prompt.out, late.out);
  EXPECT_EQ(prompt.err.find(line), std::string::npos) << prompt.err;
}

// A backend may take minutes before anything can be loaded: compiling kernels, say.
TEST(Run, ShowsAtATerminalWhatABackendDoesFirst) {
  const std::string library = BONSAI_BINARY_DIR "/tests/backends/libbonsai_warm.so";
  std::vector<std::string> arguments = {"run", "-p", "Once", "-n", "1", "--backend", library};
  EXPECT_EQ(run_program(arguments).err.find("making ready"), std::string::npos) << "this is no terminal";
  TerminalProgram program(arguments);
  EXPECT_TRUE(program.wait_for("making ready\x1b[K"));
  EXPECT_EQ(program.finish(), 0) << program.screen();
  arguments.push_back("-v");
  TerminalProgram verbose(arguments);
  EXPECT_EQ(verbose.finish(), 0);
  EXPECT_EQ(verbose.screen().find("making ready\x1b[K\x1b["), std::string::npos)
      << "a log line follows in the same line";
}

// Here because a backend fails and the CPU goes on.
TEST(Run, AWarningInTheMiddleOfATextHasALineOfItsOwnAtATerminal) {
  TerminalProgram program({"run", "-p", "Once upon a time", "-n", "12", "--temp", "0", "--backend",
                           BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so", "--backend-opt",
                           "fail.function=forward_wait", "--backend-opt", "fail.at=6"});
  EXPECT_EQ(program.finish(), 0) << program.screen();
  const std::string &screen = program.screen();
  const size_t warning = screen.find("warning");
  ASSERT_NE(warning, std::string::npos) << screen;
  EXPECT_NE(screen.substr(0, warning).find("Once upon a time, in"), std::string::npos) << screen;
  const size_t line_end = screen.rfind('\n', warning);
  ASSERT_NE(line_end, std::string::npos) << screen;
  EXPECT_EQ(screen.substr(line_end + 1, warning - line_end - 1).find_first_not_of("\x1b[0123456789;mK\r"),
            std::string::npos)
      << screen;
}

}  // namespace
}  // namespace bonsai::cli
