// --lookup and --draft of `bonsai run` and `bonsai chat`.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/model/tiny_model.h"

namespace bonsai::cli {
namespace {

using Words = std::vector<std::string>;

std::string other_seedling() { return BONSAI_BINARY_DIR "/share/bonsai/seedling-tq2_0.gguf"; }

const Words kRun = {"run", "-p", "a b c a b c a b c a b c", "-n", "60", "--seed", "3"};

Words with(Words words, const Words &more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Speculation, TheTextIsTheSameAndTheSummarySaysHowManyGuessesWereRight) {
  const Outcome plain = run_program(kRun);
  EXPECT_EQ(plain.err.find("\nguesses  "), std::string::npos) << plain.err;
  for (const Words &options :
       {Words{"--lookup"}, Words{"--draft", other_seedling()}, Words{"--lookup", "--draft", other_seedling()}}) {
    const Outcome outcome = run_program(with(kRun, options));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, plain.out);
    const size_t line = outcome.err.find("\nguesses  ");
    ASSERT_NE(line, std::string::npos) << outcome.err;
    for (const char *part : {" guesses right (", " %), ", " tokens a pass, ", " times as fast as one by one\n"})
      EXPECT_NE(outcome.err.find(part, line), std::string::npos) << part << " in " << outcome.err;
  }
}

TEST(Speculation, JsonCountsPassesAndGuesses) {
  const auto json = nlohmann::json::parse(run_program(with(kRun, {"--draft", seedling(), "--json"})).out);
  EXPECT_GT(json["proposed_tokens"], 0);
  EXPECT_EQ(json["accepted_tokens"], json["proposed_tokens"]) << "a model agrees with itself";
  EXPECT_EQ(json["decode_passes"].get<int>() + json["accepted_tokens"].get<int>(), 59);
}

TEST(Speculation, ChatTellsTheSame) {
  const Words chat = {"chat", "-n", "30", "--seed", "4"};
  const std::string messages = "hello\nhello\n";
  const Outcome plain = run_program(chat, messages);
  const Outcome guessing = run_program(with(chat, {"--lookup", "--draft", other_seedling()}), messages);
  ASSERT_EQ(guessing.exit_code, 0) << guessing.err;
  EXPECT_EQ(guessing.out, plain.out);
  EXPECT_NE(guessing.err.find(" guesses right ("), std::string::npos) << guessing.err;
}

TEST(Speculation, ADraftThatCannotServeIsRefusedInOneLine) {
  const Outcome missing = run_program({"run", "-m", seedling(), "-p", "A", "--draft", "/nowhere.gguf"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(missing.out, "");
  EXPECT_EQ(missing.err, "bonsai run: draft model: /nowhere.gguf: cannot open: No such file or directory\n");
  const test::TinyModelFile tiny({});
  const Outcome other = run_program({"run", "-m", seedling(), "-p", "A", "--draft", tiny.path()});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_EQ(other.out, "");
  EXPECT_EQ(other.err,
            "bonsai run: draft model: expected the model's vocabulary, found one of 272 tokens instead of 4096\n");
}

}  // namespace
}  // namespace bonsai::cli
