// --save-session and --load-session of `bonsai run` and `bonsai chat`.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/cli/pty.h"

namespace bonsai::cli {
namespace {

using nlohmann::json;

std::string without_newline(std::string text) { return text.substr(0, text.size() - 1); }

TEST(RunSession, GoesOnWhereItWasSaved) {
  const std::string file = ::testing::TempDir() + "/bonsai-cli-" + std::to_string(getpid()) + ".session";
  const Outcome whole = run_program({"run", "-p", "Once upon a time", "--temp", "0", "-n", "24"});
  const Outcome first =
      run_program({"run", "-p", "Once upon a time", "--temp", "0", "-n", "16", "--save-session", file});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const Outcome second = run_program({"run", "--load-session", file, "--temp", "0", "-n", "8"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(without_newline(first.out) + without_newline(second.out), without_newline(whole.out));
  EXPECT_NE(second.err.find("\nprompt   1 token, "), std::string::npos) << second.err;
  std::filesystem::remove(file);
}

TEST(RunSession, RefusesWhatIsNoSession) {
  const Outcome outcome = run_program({"run", "--load-session", seedling(), "-n", "8"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find(seedling() + ": not a session file\n"), std::string::npos) << outcome.err;
  const Outcome chat = run_program({"run", "--chat", "-p", "Hi", "--save-session", "x"});
  EXPECT_EQ(chat.exit_code, 2);
  EXPECT_NE(chat.err.find("--save-session is not for --chat: 'bonsai chat' has it"), std::string::npos) << chat.err;
}

// A reader that has enough, as `head` has.
TEST(RunSession, IsSavedThoughNobodyReadsToTheEnd) {
  const std::string folder = make_folder("unread");
  const Outcome run = run_in_shell("\"$@\" | head -c 1", {"run", "-m", seedling(), "-p", "x", "-n", "500",
                                                          "--ignore-eos", "--save-session", folder + "/run"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Outcome chat =
      run_in_shell("\"$@\" | head -c 1", {"chat", "-m", seedling(), "-n", "300", "--save-session", folder + "/chat"},
                   "one\ntwo\nthree\n");
  EXPECT_EQ(chat.exit_code, 0) << chat.err;
  EXPECT_EQ(files_in(folder), (std::vector<std::string>{"chat", "run"}));
  EXPECT_EQ(run_program({"run", "--load-session", folder + "/run", "-n", "1"}).exit_code, 0);
  EXPECT_EQ(run_program({"chat", "-m", seedling(), "--load-session", folder + "/chat"}).exit_code, 0);
}

TEST(RunSession, IsSavedThoughTheOutputIsFull) {
  const std::string file = make_folder("full") + "/run";
  const Outcome run = run_program_into("/dev/full", {"run", "-p", "Once", "-n", "20", "--save-session", file});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find("bonsai run: cannot write to stdout: No space left on device\n"), std::string::npos)
      << run.err;
  EXPECT_EQ(run_program({"run", "--load-session", file, "-n", "1"}).exit_code, 0);
}

// A text of which nothing is there yet leaves the file as it was: the command may be tried again.
TEST(RunSession, IsNotSavedWithoutAText) {
  const std::string file = make_folder("nothing") + "/run";
  EXPECT_EQ(run_program({"run", "-p", "Once", "-n", "2", "--logit-bias", "99999=1", "--save-session", file}).exit_code,
            1);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(RunSession, IsNotWrittenOverItsModel) {
  const std::string model = write_file("model.gguf", read_file(seedling()));
  const Outcome outcome = run_program({"run", "-m", model, "-n", "2", "--save-session", model});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai run: " + model + ": is the model, expected another file for the session\n");
  EXPECT_EQ(read_file(model), read_file(seedling()));
}

// The model is the one that is taken without -m; the session's file is another name of it, which alone would change.
TEST(RunSession, IsNotWrittenOverTheSeedling) {
  const std::string name = make_folder("seedling") + "/other-name.gguf";
  std::filesystem::create_symlink(seedling(), name);
  const Outcome outcome = run_program({"run", "-n", "2", "--save-session", name});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai run: " + name + ": is the model, expected another file for the session\n");
  EXPECT_TRUE(std::filesystem::is_symlink(name));
}

TEST(RunSession, TellsBeforeTheTextThatItCannotBeSaved) {
  const Outcome outcome = run_program({"run", "-n", "8", "--save-session", "/nowhere/tale"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "bonsai run: /nowhere/tale: cannot create a file in /nowhere: No such file or directory\n");
}

// Signals that end the program while it waits for a message, and a window that is closed.
TEST(ChatSession, IsSavedThoughAPersonDoesNotSayGoodbye) {
  constexpr int kWindow = 0, kWindowOfAShell = -1;  // which sends SIGHUP on, beside the terminal's own
  for (const int signal : {SIGTERM, SIGHUP, kWindow, kWindowOfAShell, kWindowOfAShell, kWindowOfAShell}) {
    const std::string file = make_folder("goodbye") + "/chat";
    TerminalProgram program({"chat", "-m", seedling(), "-n", "5", "--save-session", file});
    ASSERT_TRUE(program.wait_for_prompt());
    program.type("hello\r");
    ASSERT_TRUE(program.wait_for("ended by length"));
    ASSERT_TRUE(program.wait_for_prompt());
    if (signal > 0)
      program.send_signal(signal);
    else
      program.close_terminal();
    for (int i = 0; signal == kWindowOfAShell && i < 5; ++i) program.send_signal(SIGHUP);
    const int exit_code = program.finish();
    EXPECT_TRUE(exit_code == 128 + (signal > 0 ? signal : SIGHUP) || (signal <= 0 && exit_code == 0)) << exit_code;
    const Outcome loaded = run_program({"chat", "-m", seedling(), "--load-session", file}, "/exit\n");
    EXPECT_EQ(loaded.exit_code, 0) << loaded.err;
    EXPECT_NE(loaded.err.find("2 messages are loaded"), std::string::npos) << loaded.err;
  }
}

TEST(ChatSession, IsSavedThoughTheOutputIsFull) {
  const std::string file = make_folder("full") + "/chat";
  const Outcome chat = run_in_shell("exec \"$@\" >/dev/full", {"chat", "-n", "5", "--save-session", file}, "hello\n");
  EXPECT_EQ(chat.exit_code, 1);
  EXPECT_NE(chat.err.find("0 messages are in " + file + "\nbonsai chat: cannot write to stdout: "), std::string::npos)
      << chat.err;
}

// A terminal that is closed in the middle of an answer, where no SIGHUP tells of it.
TEST(ChatSession, IsSavedThoughTheTerminalIsClosedDuringAnAnswer) {
  const std::string file = make_folder("closed") + "/chat";
  std::signal(SIGHUP, SIG_IGN);  // the program inherits it
  TerminalProgram program({"chat", "-m", seedling(), "--ignore-eos", "-n", "900", "--save-session", file});
  std::signal(SIGHUP, SIG_DFL);
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("hello\r");
  ASSERT_TRUE(program.wait_for("hello\r\n"));
  program.close_terminal();
  EXPECT_EQ(program.finish(), 0);
  EXPECT_TRUE(std::filesystem::exists(file));
}

// One that fails during the second answer, where the CPU may not take over.
TEST(ChatSession, IsSavedThoughTheBackendFails) {
  const std::string file = make_folder("failing") + "/chat";
  const Outcome chat =
      run_program({"chat", "-m", seedling(), "-n", "5", "--ignore-eos", "--save-session", file, "--backend",
                   BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so", "--backend-strict", "--backend-opt",
                   "fail.at=8", "--backend-opt", "fail.function=forward_wait"},
                  "hello\nagain\n");
  EXPECT_EQ(chat.exit_code, 1);
  EXPECT_NE(chat.err.find("2 messages are in " + file + "\nbonsai chat: failing: injected into forward_wait"),
            std::string::npos)
      << chat.err;
  const Outcome loaded = run_program({"chat", "-m", seedling(), "--load-session", file}, "/exit\n");
  EXPECT_NE(loaded.err.find("2 messages are loaded"), std::string::npos) << loaded.err;
}

// A conversation over a pipe, a line for each answer.
struct Talk {
  Outcome outcome;
  std::vector<json> answers;
};

Talk talk(const std::string &input, std::vector<std::string> more) {
  more.insert(more.begin(), {"chat", "-m", seedling(), "--temp", "0", "-n", "12", "--json"});
  Talk talk{run_program(more, input), {}};
  std::istringstream lines(talk.outcome.out);
  for (std::string line; std::getline(lines, line);) talk.answers.push_back(json::parse(line));
  return talk;
}

TEST(ChatSession, GoesOnAnotherDayWithoutComputingItsTokensAgain) {
  const std::string file = write_file("chat.session", "");
  const Talk whole = talk("Tell me of the King\nAnd of the Queen\nAnd of the wolf\n", {"--system", "You are old"});
  ASSERT_EQ(whole.answers.size(), 3u) << whole.outcome.err;
  const Talk first = talk("Tell me of the King\n", {"--system", "You are old", "--save-session", file});
  EXPECT_EQ(first.outcome.err, "2 messages are in " + file + "\n");
  // The same file again: where the conversation has come to by then.
  const Talk second = talk("And of the Queen\n", {"--load-session", file, "--save-session", file});
  EXPECT_EQ(second.outcome.err, "2 messages are loaded\n4 messages are in " + file + "\n");
  const Talk third = talk("And of the wolf\n", {"--load-session", file});
  EXPECT_EQ(third.outcome.exit_code, 0);
  ASSERT_EQ(first.answers.size() + second.answers.size() + third.answers.size(), 3u);
  size_t turn = 0;
  for (const Talk *day : {&first, &second, &third}) {
    for (const char *what : {"tokens", "text", "reused_tokens", "prompt_tokens"})
      EXPECT_EQ(day->answers[0][what], whole.answers[turn][what]) << what << " of answer " << turn;
    ++turn;
  }
  EXPECT_GT(third.answers[0]["reused_tokens"], 40);
}

TEST(ChatSession, MayBeSavedAndLoadedAtAnyTime) {
  const std::string file = write_file("chat.session", "");
  const Talk all = talk("one\n/save-session " + file + "\ntwo\n/load-session " + file + "\ntwo\n", {});
  ASSERT_EQ(all.answers.size(), 3u) << all.outcome.err;
  EXPECT_EQ(all.outcome.err, "2 messages are in " + file + "\n2 messages are loaded\n");
  EXPECT_EQ(all.answers[2]["tokens"], all.answers[1]["tokens"]);
  EXPECT_EQ(all.answers[2]["reused_tokens"], all.answers[1]["reused_tokens"]);
  // Any other backend takes it up.
  const Talk moved = talk("/load-session " + file + "\ntwo\n", {"--backend", backend_file("template")});
  ASSERT_EQ(moved.answers.size(), 1u) << moved.outcome.err;
  EXPECT_EQ(moved.answers[0]["reused_tokens"], all.answers[1]["reused_tokens"]);
}

TEST(ChatSession, MistakesInCommandsAreSaidAndTheConversationGoesOn) {
  const Talk all =
      talk("/save-session\n/load-session\n/save-session /nowhere/x\n/load-session " + seedling() + "\none\n", {});
  EXPECT_EQ(all.outcome.err,
            "/save-session: expected the name of a file\n"
            "/load-session: expected the name of a file\n"
            "/save-session: /nowhere/x: cannot create a file in /nowhere: No such file or directory\n"
            "/load-session: " +
                seedling() + ": not a session file\n");
  EXPECT_EQ(all.answers.size(), 1u);
}

TEST(ChatSession, RefusesWhatIsNoConversationOfThisModel) {
  const auto said = [](const std::vector<std::string> &more) {
    const Talk refused = talk("hi\n", more);
    EXPECT_EQ(refused.outcome.out, "");
    return std::to_string(refused.outcome.exit_code) + " " + refused.outcome.err;
  };
  const std::string text = write_file("run.session", ""), ternary = write_file("ternary.session", "");
  run_program({"run", "-n", "2", "--save-session", text});
  run_program({"chat", "-m", BONSAI_BINARY_DIR "/share/bonsai/seedling-tq2_0.gguf", "--save-session", ternary});
  EXPECT_EQ(said({"--load-session", "/nowhere/x"}),
            "1 bonsai chat: /nowhere/x: cannot open: No such file or directory\n");
  EXPECT_EQ(said({"--load-session", text}),
            "1 bonsai chat: " + text + ": a session without a conversation, expected one that a chat has saved\n");
  EXPECT_EQ(
      said({"--load-session", ternary}),
      "1 bonsai chat: " + ternary + ": a session of another model: its keys and values would mean nothing here\n");
  EXPECT_EQ(said({"--save-session", "/nowhere/x"}),
            "1 bonsai chat: /nowhere/x: cannot create a file in /nowhere: No such file or directory\n");
  const std::string see = " (see 'bonsai chat --help')\n";
  EXPECT_EQ(said({"--load-session", text, "--system", "x"}),
            "2 bonsai chat: --system and --load-session exclude each other: /system changes what was loaded" + see);
  EXPECT_EQ(said({"--load-session", text, "--no-think"}),
            "2 bonsai chat: --no-think and --load-session exclude each other: /think changes what was loaded" + see);
  EXPECT_EQ(said({"--load-session", text, "--tools", write_file("tools.json", "[]")}),
            "2 bonsai chat: --tools and --load-session exclude each other: the session has its own" + see);
}

}  // namespace
}  // namespace bonsai::cli
