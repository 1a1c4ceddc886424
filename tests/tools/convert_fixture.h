// What the tests of bonsai-convert share: a checkpoint in a folder, the program's run, what came of it.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/model/weights.h"
#include "tests/tools/tiny_checkpoint.h"
#include "tests/tools/tool.h"

namespace bonsai::convert {

namespace fs = std::filesystem;
using test::in_quotes;
using test::Outcome;
using test::TemporaryDirectory;
using test::TinyCheckpoint;

inline Outcome run_program(const std::string &arguments) { return test::run_shell("bonsai-convert " + arguments); }

class Convert : public testing::Test {
 protected:
  // Writes the checkpoint and converts it.
  Outcome convert(const TinyCheckpoint &checkpoint, const std::string &type = "Q1_0_G128") {
    checkpoint.write(input());
    return convert_input(type);
  }

  Outcome convert_input(const std::string &type = "Q1_0_G128") {
    return run_program(in_quotes(input()) + " " + in_quotes(output()) + " --type " + type);
  }

  // The message of a conversion that must fail, less "bonsai-convert: " and the input's path. Nothing may be left.
  std::string refusal(const TinyCheckpoint &checkpoint, const std::string &type = "Q1_0_G128") {
    checkpoint.write(input());
    return refusal_of_input(type);
  }

  std::string refusal_of_input(const std::string &type = "Q1_0_G128") {
    const Outcome outcome = convert_input(type);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(left_behind(), std::vector<std::string>{"in"});
    const std::string prefix = "bonsai-convert: " + input();
    EXPECT_TRUE(outcome.err.starts_with(prefix)) << outcome.err;
    return outcome.err.substr(prefix.size());
  }

  std::vector<std::string> left_behind() const { return test::files_in(directory_); }

  model::Model load() const {
    auto model = model::load_model(output());
    if (!model) throw std::runtime_error(model.error().message);
    return std::move(*model);
  }

  std::string input() const { return directory_.file("in"); }
  std::string output() const { return directory_.file("out.gguf"); }

  TemporaryDirectory directory_;
};

}  // namespace bonsai::convert
