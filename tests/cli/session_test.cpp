// `bonsai run --save-session` and `--load-session`.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/cli/program.h"

namespace bonsai::cli {
namespace {

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
  EXPECT_NE(second.err.find("\nprompt   1 tokens"), std::string::npos) << second.err;
  std::filesystem::remove(file);
}

TEST(RunSession, RefusesWhatIsNoSession) {
  const Outcome outcome = run_program({"run", "--load-session", seedling(), "-n", "8"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find(seedling() + ": not a session file\n"), std::string::npos) << outcome.err;
  const Outcome chat = run_program({"run", "--chat", "-p", "Hi", "--save-session", "x"});
  EXPECT_EQ(chat.exit_code, 2);
  EXPECT_NE(chat.err.find("--save-session is not for --chat: see /save and /load in 'bonsai chat'"), std::string::npos)
      << chat.err;
}

}  // namespace
}  // namespace bonsai::cli
