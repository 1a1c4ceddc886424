// Promise: where stderr takes nothing, results and exit codes are what they would have been.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/program.h"

namespace bonsai::cli {
namespace {

// Lines of sh for stderrs that take nothing: closed, full, and a pipe whose only reader has gone.
std::vector<std::string> useless_stderrs() {
  const std::string fifo = make_folder("stderr") + "/fifo";
  return {"exec \"$@\" 2>&-", "exec \"$@\" 2>/dev/full",
          "mkfifo " + fifo + " && exec 3<>" + fifo + " 2>" + fifo + " 3<&- && exec \"$@\""};
}

void expect_the_same_with_any_stderr(const std::vector<std::string> &arguments, int exit_code,
                                     const std::string &input = "") {
  const Outcome usual = run_program(arguments, input);
  EXPECT_EQ(usual.exit_code, exit_code) << usual.err;
  EXPECT_NE(usual.err, "") << "there is something to drop";
  for (const std::string &script : useless_stderrs()) {
    const Outcome outcome = run_in_shell(script, arguments, input);
    EXPECT_EQ(outcome.exit_code, exit_code) << script;
    EXPECT_EQ(outcome.out, usual.out) << script;
    EXPECT_EQ(outcome.err, "") << script;
  }
}

TEST(UselessStderr, ATextIsTheSame) {
  expect_the_same_with_any_stderr({"run", "-p", "Once upon a time", "--temp", "0", "-n", "8"}, 0);
}

TEST(UselessStderr, AConversationIsTheSame) {
  expect_the_same_with_any_stderr({"chat", "--temp", "0", "-n", "8"}, 1, "hi\n/help\n/nope\n/system\nyou\n");
}

TEST(UselessStderr, WarningsEndNothing) {
  expect_the_same_with_any_stderr({"run", "--temp", "0", "-c", "12", "-n", "100", "--backend", "abacus"}, 0);
}

TEST(UselessStderr, ErrorsKeepTheirExitCodes) {
  expect_the_same_with_any_stderr({"info", "/nonexistent/model.gguf"}, 1);
  expect_the_same_with_any_stderr({"run", "-p", "x", "-f", "y"}, 2);
  expect_the_same_with_any_stderr({"nope"}, 2);
  expect_the_same_with_any_stderr({}, 2);
}

// A line of sh for a stdout whose only reader has gone.
std::string unread_stdout() {
  const std::string fifo = make_folder("stdout") + "/fifo";
  return "mkfifo " + fifo + " && exec 3<>" + fifo + " >" + fifo + " 3<&- && exec \"$@\"";
}

TEST(UnreadStdout, VerdictsKeepTheirExitCodes) {
  const std::string vocabulary = write_file("vocabulary.gguf", std::string("GGUF\3\0\0\0", 8) + std::string(16, '\0'));
  for (const std::vector<std::string> &arguments :
       std::vector<std::vector<std::string>>{{"validate", "/dev/null"},
                                             {"validate", "/dev/null", "--json"},
                                             {"validate", vocabulary},  // with something to say before the refusal
                                             {"backends", "nope"},
                                             {"backends", "nope", "--json"},
                                             {"backends", "nope", "--warm"}})
    EXPECT_EQ(run_in_shell(unread_stdout(), arguments).exit_code, run_program(arguments).exit_code) << arguments[0];
  EXPECT_EQ(run_program({"validate", vocabulary}).exit_code, 1);
  EXPECT_EQ(run_program({"backends", "nope"}).exit_code, 1);
  EXPECT_EQ(run_in_shell(unread_stdout(), {"validate", seedling()}).exit_code, 0);
  EXPECT_EQ(run_in_shell(unread_stdout(), {"chat", "-n", "2"}, "/nope\nhi\n").exit_code, 1);
  EXPECT_EQ(run_in_shell(unread_stdout(), {"chat", "-n", "2"}, "hi\n").exit_code, 0);
}

// Of a pipe or terminal that another process has made return EAGAIN.
TEST(StreamsThatDoNotBlock, AreWaitedFor) {
  const std::string nonblocking =
      "perl -e 'use Fcntl; fcntl(STDIN, F_SETFL, O_RDONLY | O_NONBLOCK); fcntl(STDOUT, F_SETFL, O_WRONLY | "
      "O_NONBLOCK); "
      "exec @ARGV' \"$@\"";
  std::string text;
  while (text.size() < 200000) text += "Once upon a time there was a fox. ";  // ids fill a pipe more than once
  const std::vector<std::string> command = {"tokenize", "-m", seedling(), "-p", "-"};
  const Outcome usual = run_program(command, text);
  ASSERT_GT(usual.out.size(), 100000u);
  const Outcome outcome = run_in_shell("(sleep 0.3; cat) | " + nonblocking + " | (sleep 1; cat)", command, text);
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(outcome.out == usual.out);
}

// With stderr closed, the next file that is opened would get its number, and every message would go there.
TEST(ClosedStreams, NoFileIsOpenedInTheirPlace) {
  const std::string folder = make_folder("files");
  const auto save = [&](const std::string &name, const std::string &script) {
    const Outcome outcome = run_in_shell(script, {"run", "-p", "Once", "-n", "8", "--temp", "0", "--backend", "abacus",
                                                  "--save-session", folder + "/" + name});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return read_file(folder + "/" + name);
  };
  const std::string usual = save("usual", "exec \"$@\"");
  EXPECT_NE(usual, "");
  EXPECT_TRUE(save("closed", "exec \"$@\" <&- 2>&-") == usual);
}

TEST(ClosedStreams, WhoNeedsStdinOrStdoutIsTold) {
  const Outcome mute = run_in_shell("exec \"$@\" >&-", {"tokenize", "-m", seedling(), "-p", "x"});
  EXPECT_EQ(mute.exit_code, 1);
  EXPECT_EQ(mute.err, "bonsai tokenize: cannot write to stdout: Bad file descriptor\n");
  const Outcome deaf = run_in_shell("exec \"$@\" <&-", {"tokenize", "-m", seedling(), "-p", "-"});
  EXPECT_EQ(deaf.exit_code, 1);
  EXPECT_EQ(deaf.err, "bonsai tokenize: stdin: cannot read: Bad file descriptor\n");
}

}  // namespace
}  // namespace bonsai::cli
