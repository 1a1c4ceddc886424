// `bonsai run` with a grammar or a JSON schema.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace bonsai::cli {
namespace {

using nlohmann::json;

const char *const kSchema =
    R"({"properties": {"kind": {"enum": ["fox", "king"]}, "old": {"type": "boolean"}}, "required": ["kind", "old"]})";

TEST(RunGrammar, ASchemaFromTheCommandLineOrAFileGivesJson) {
  const std::string file = write_file("schema.json", kSchema);
  for (const std::string &schema : {std::string(kSchema), file}) {
    const Outcome outcome = run_program({"run", "-p", "The king: ", "--json-schema", schema, "--json", "--seed", "1"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    EXPECT_EQ(result["finish_reason"], "end_of_text");
    const json value = json::parse(result["text"].get<std::string>());
    EXPECT_TRUE(value["kind"] == "fox" || value["kind"] == "king") << value;
    EXPECT_TRUE(value["old"].is_boolean()) << value;
  }
}

TEST(RunGrammar, AGrammarComesFromAFileAndTheSummaryShowsItsCost) {
  const std::string file = write_file("answer.gbnf", "root ::= \" yes\" | \" no\"\n");
  const Outcome outcome = run_program({"run", "-p", "Is it?", "--grammar", file, "--temp", "0"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out == "Is it? yes\n" || outcome.out == "Is it? no\n") << outcome.out;
  EXPECT_NE(outcome.err.find("\ngrammar  read in "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(" us a token"), std::string::npos) << outcome.err;
}

TEST(RunGrammar, WhatIsWrongIsSaidInOneLine) {
  const std::string bad = write_file("bad.gbnf", "root ::= [a\n");
  Outcome outcome = run_program({"run", "--grammar", bad});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("grammar, line 2, column 1: expected ']' at the end of the class that begins at line 1, "
                             "column 10, found the end of the grammar\n"),
            std::string::npos)
      << outcome.err;
  outcome = run_program({"run", "--json-schema", R"({"not": {}})"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("JSON schema, '#': keyword 'not' is not supported\n"), std::string::npos) << outcome.err;
  for (const auto &[schema, message] : {std::pair{"false", "false allows no value at all"},
                                        {" null\n", "expected an object, true or false, found null"},
                                        {"[]", "expected an object, true or false, found array"},
                                        {"\"a\"", "expected an object, true or false, found string"}}) {
    outcome = run_program({"run", "--json-schema", schema});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.err.find(std::string("JSON schema, '#': ") + message + "\n"), std::string::npos) << outcome.err;
  }
  outcome = run_program({"run", "--grammar", bad, "--json-schema", "{}"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(
      outcome.err.find("--grammar and --json-schema both restrict the text: choose one (see 'bonsai run --help')\n"),
      std::string::npos)
      << outcome.err;
  outcome = run_program({"run", "--grammar", "/nonexistent/a.gbnf"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("/nonexistent/a.gbnf: cannot read: No such file or directory"), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace bonsai::cli
