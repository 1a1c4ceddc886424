// `bonsai embed` on the seedling.
#include <bonsai/engine.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "tests/cli/program.h"

namespace bonsai::cli {
namespace {

using nlohmann::json;
using Vector = std::vector<float>;

const std::string kKing = "The King had three daughters", kWolf = "The wolf ran into the wood";

// A vector for each line of the output.
std::vector<Vector> embed(std::vector<std::string> arguments, const std::string &input = "") {
  arguments.insert(arguments.begin(), "embed");
  const Outcome outcome = run_program(arguments, input);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<Vector> vectors;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) vectors.push_back(json::parse(line).get<Vector>());
  return vectors;
}

double dot(const Vector &a, const Vector &b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

TEST(Embed, GivesWhatTheLibraryGives) {
  EngineOptions options;
  options.model = seedling();
  options.backend = backend_file("cpu");
  const Engine engine = Engine::load(options);
  EXPECT_EQ(embed({"-m", seedling(), "-p", kKing}), std::vector<Vector>{engine.embed(kKing)});
  EXPECT_EQ(embed({"-m", seedling(), "-p", kKing, "--pooling", "last"}),
            std::vector<Vector>{engine.embed(kKing, {.pooling = Pooling::kLast})});
  EXPECT_NE(engine.embed(kKing), engine.embed(kKing, {.pooling = Pooling::kLast}));
}

TEST(Embed, EveryTextIsALineOfLengthOne) {
  const std::vector<Vector> both = embed({"-p", kKing, "-p", kWolf});
  ASSERT_EQ(both.size(), 2u);
  for (const Vector &vector : both) EXPECT_NEAR(dot(vector, vector), 1, 1e-5);
  EXPECT_LT(dot(both[0], both[1]), 0.999);
  EXPECT_EQ(both, (std::vector<Vector>{embed({"-p", kKing})[0], embed({"-p", kWolf})[0]}));
}

TEST(Embed, TextsComeFromFilesAndPipesWholeOrByLine) {
  const std::string file = write_file("texts", kKing + "\n" + kWolf + "\n");
  const std::vector<Vector> both = embed({"-p", kKing, "-p", kWolf});
  EXPECT_EQ(embed({"-f", file, "--lines"}), both);
  EXPECT_EQ(embed({"-p", "-", "--lines"}, kKing + "\n" + kWolf), both);
  EXPECT_EQ(embed({"-f", file}), embed({"-p", kKing + "\n" + kWolf}));
  EXPECT_EQ(embed({"-f", "-"}, kKing + "\n"), std::vector<Vector>{both[0]});
}

TEST(Embed, OneOfSeveralTextsMayComeFromStdin) {
  const std::vector<Vector> both = embed({"-p", kKing, "-p", kWolf});
  EXPECT_EQ(embed({"-p", kKing, "-p", "-"}, kWolf + "\n"), both);
  EXPECT_EQ(embed({"-p", "-", "-p", kWolf}, kKing), both);
  const std::vector<Vector> four = embed({"-p", kWolf, "-p", "-", "-p", kKing, "--lines"}, kKing + "\n" + kWolf);
  EXPECT_EQ(four, (std::vector<Vector>{both[1], both[0], both[1], both[0]}));
}

TEST(Embed, JsonIsOneObject) {
  const Outcome outcome = run_program({"embed", "-p", kKing, "-p", kWolf, "--pooling", "last", "--json"});
  const json all = json::parse(outcome.out);
  EXPECT_EQ(all["pooling"], "last");
  EXPECT_EQ(all["embeddings"].get<std::vector<Vector>>(), embed({"-p", kKing, "-p", kWolf, "--pooling", "last"}));
}

TEST(EmbedRefuses, InOneLine) {
  const auto said = [](std::vector<std::string> arguments, const std::string &input = "") {
    arguments.insert(arguments.begin(), {"embed", "-m", seedling()});
    const Outcome outcome = run_program(arguments, input);
    return std::to_string(outcome.exit_code) + " " + outcome.err;
  };
  const std::string see = " (see 'bonsai embed --help')\n";
  EXPECT_EQ(said({}), "2 bonsai embed: no text: expected -p TEXT, -f FILE or '-p -' for stdin" + see);
  EXPECT_EQ(said({"-p", "a", "-f", "b"}), "2 bonsai embed: -p and -f both give the text: choose one" + see);
  EXPECT_EQ(said({"-p", "-", "-p", "a", "-p", "-"}, "b"),
            "2 bonsai embed: stdin is asked for twice: '-p -' can be given once" + see);
  EXPECT_EQ(said({"-p", "a", "--lines"}), "2 bonsai embed: --lines is for -f FILE and '-p -'" + see);
  EXPECT_EQ(said({"-p", "a", "--pooling", "max"}),
            "2 bonsai embed: --pooling: expected mean or last, found 'max'" + see);
  EXPECT_EQ(said({"-p", ""}), "1 bonsai embed: empty text: there is nothing to embed\n");
  EXPECT_EQ(said({"-p", "-", "--lines"}, "a\n\nb\n"),
            "1 bonsai embed: text 2 of 3: empty text: there is nothing to embed\n");
  EXPECT_EQ(said({"-p", "one two three four five six seven", "-c", "4"}),
            "1 bonsai embed: context full: 8 tokens to embed, room for 4: -c gives more, up to the model's 1024\n");
  EXPECT_EQ(said({"-f", "/nonexistent/x"}), "1 bonsai embed: /nonexistent/x: cannot read: No such file or directory\n");
}

// A text that is none costs the work of none before it.
TEST(Embed, LooksAtEveryTextBeforeItComputesTheFirst) {
  const std::string long_text(20, 'x');
  for (const std::string &lines : {std::string("a\nb\n\n"), "a\nb\n" + long_text + "\n", std::string("a\nb\n\xff\n")}) {
    const Outcome outcome = run_program({"embed", "-p", "-", "--lines", "-c", "8"}, lines);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("text 3 of 3: "), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace bonsai::cli
