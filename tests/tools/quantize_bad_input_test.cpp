// Promises of bonsai-quantize when something is wrong: one line says what, and nothing half-written is left.
#include <limits>

#include "tests/gguf/file_bytes.h"
#include "tests/gguf/split_file.h"
#include "tests/model/tiny_model.h"
#include "tests/tools/quantize_fixture.h"
#include "tools/quantize/quantize.h"

namespace bonsai::quantize {
namespace {

namespace fs = std::filesystem;
using quant::Format;
using test::Outcome;

using QuantizeBadInput = Quantize;

TEST_F(QuantizeBadInput, ALossThatNobodyAskedForIsRefused) {
  std::vector<float> weights(256, 127 * 0x1p-8f);  // exact in Q8_0
  weights[128 + 3] = 0.25f;                        // but Q1_0 has one magnitude for 128
  write_input({make_tensor("blk.0.up.weight", {128, 2}, weights, Format::kQ8_0)});
  EXPECT_EQ(
      refusal("--type Q1_0"),
      "tensor 'blk.0.up.weight' (Q8_0): row 1, column 0: 0.49609375 would become 0.49414062 in Q1_0_G128; --requantize "
      "allows that loss\n");
}

TEST_F(QuantizeBadInput, TernaryBlocksThatDoNotFitAreRefused) {
  std::vector<float> weights(512, 0.5f);
  for (size_t i = 128; i < 256; ++i) weights[i] = 0.25f;
  write_input({make_tensor("a.weight", {256, 2}, weights, Format::kTQ2_0_G128)});
  EXPECT_EQ(refusal("--type TQ2_0"),
            "tensor 'a.weight' (TQ2_0_G128): row 0, column 128: 0.25 would become 0.5 in TQ2_0; --requantize allows "
            "that loss\n");
  InputTensor with_code3 = make_tensor("a.weight", {128, 2}, std::vector<float>(256, 0.5f), Format::kTQ2_0_G128);
  with_code3.blocks[2] = std::byte{0xEA};
  write_input({with_code3});
  EXPECT_TRUE(refusal("--type TQ1_0_G128").ends_with("; --requantize allows that loss\n"));
}

TEST_F(QuantizeBadInput, AWeightThatIsNotFiniteIsNamed) {
  std::vector<float> weights = random_weights(64 * 3000);
  weights[64 * 2999 + 7] = std::numeric_limits<float>::quiet_NaN();
  for (const Format from : {Format::kF32, Format::kF16, Format::kBF16}) {
    write_input({make_tensor("norm", {4}, random_weights(4)), make_tensor("a.weight", {64, 3000}, weights, from)});
    for (const char *type : {"F32", "F16", "Q4_0", "Q2_0_G64"}) {
      EXPECT_EQ(refusal(std::string("--type ") + type),
                fmt::format("tensor 'a.weight' ({}): row 2999, column 7: expected a finite number, found nan\n",
                            quant::traits(from).name));
    }
  }
  weights[64 * 17 + 5] = -std::numeric_limits<float>::infinity();
  write_input({make_tensor("a.weight", {64, 3000}, weights)});
  EXPECT_EQ(refusal("--type F8_E4M3"),
            "tensor 'a.weight' (F32): row 17, column 5: expected a finite number, found -inf\n")
      << "the first in the tensor, on any number of threads";
}

TEST_F(QuantizeBadInput, AWeightBeyondTheFormatsRangeIsNamed) {
  std::vector<float> weights(256, 1.0f);
  weights[128 + 40] = -2.5e20f;
  write_input({make_tensor("a.weight", {128, 2}, weights)});
  for (const std::string type : {"F16", "F8_E4M3", "F8_E5M2", "Q8_0", "Q4_0", "TQ1_0_G128", "Q1_0_G128"}) {
    EXPECT_EQ(refusal("--type " + type),
              fmt::format("tensor 'a.weight' (F32): row 1, column 40: -2.5e+20 is beyond what {} holds\n", type));
  }
}

TEST_F(QuantizeBadInput, WhatIsNoModelIsNamed) {
  EXPECT_EQ(test::run_shell("bonsai-quantize /nowhere.gguf " + test::in_quotes(output()) + " --type F16").err,
            "bonsai-quantize: /nowhere.gguf: cannot open: No such file or directory\n");
  test::write_file(input(), "not a model, just a few words");
  EXPECT_NE(refusal("--type F16").find("magic"), std::string::npos);
  test::write_tiny_model({}, input());
  fs::resize_file(input(), fs::file_size(input()) - 200);
  EXPECT_NE(refusal("--type F16").find("the file ends early"), std::string::npos);
  write_input({});
  EXPECT_EQ(refusal("--type F16"), "has no tensors\n");
  test::TinyModel part;
  part.metadata = [](gguf::Writer &writer) { writer.set_uint32("split.count", 3); };
  test::write_tiny_model(part, input());
  EXPECT_EQ(refusal("--type F16"),
            "one of 3 parts of a model (split.no), expected the first, beside which the others are\n");
}

TEST_F(QuantizeBadInput, TheInputIsNotOverwritten) {
  write_input({make_tensor("a.weight", {32, 2}, random_weights(64))});
  const std::string before = test::read_file(input());
  const std::string link = directory_.file("link.gguf");
  fs::create_symlink("in.gguf", link);
  for (const std::string &same : {input(), directory_.path().string() + "/./in.gguf", link}) {
    const Outcome outcome =
        test::run_shell("bonsai-quantize " + test::in_quotes(input()) + " " + test::in_quotes(same) + " --type F16");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.err, "bonsai-quantize: " + same + ": is the input " + input() + ", expected another file\n");
  }
  EXPECT_TRUE(test::read_file(input()) == before);
}

TEST_F(QuantizeBadInput, NoPartOfTheInputIsOverwritten) {
  write_input(
      {make_tensor("a.weight", {32, 2}, random_weights(64)), make_tensor("b.weight", {32, 2}, random_weights(64))});
  const std::vector<std::string> parts = test::split_file(open(input()), directory_.file("part"), 2);
  const std::string before = test::read_file(parts[1]);
  const Outcome outcome =
      test::run_shell("bonsai-quantize " + test::in_quotes(parts[0]) + " " + test::in_quotes(parts[1]) + " --type F16");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai-quantize: " + parts[1] + ": is the input " + parts[1] + ", expected another file\n");
  EXPECT_TRUE(test::read_file(parts[1]) == before);
}

TEST_F(QuantizeBadInput, UsageErrorsExitWithTwo) {
  write_input({make_tensor("a.weight", {32, 2}, random_weights(64))});
  const auto message = [&](const std::string &options) {
    const Outcome outcome = quantize(options);
    EXPECT_EQ(outcome.exit_code, 2) << options;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  const std::string unknown = message("--type Q9_9");
  EXPECT_TRUE(unknown.starts_with("bonsai-quantize: --type: expected one of F32, F16, BF16, ")) << unknown;
  EXPECT_TRUE(unknown.ends_with("; found 'Q9_9'\n")) << unknown;
  EXPECT_TRUE(message("--type F16 --keep a=Q9_9").starts_with("bonsai-quantize: --keep: expected one of F32, "));
  EXPECT_EQ(message("--type F16 --keep a"), "bonsai-quantize: --keep: expected PATTERN=TYPE, found 'a'\n");
  EXPECT_EQ(message("--type F16 --keep =F16"), "bonsai-quantize: --keep: expected PATTERN=TYPE, found '=F16'\n");
  for (const char *count : {"0", "-1", "1025"}) {
    EXPECT_EQ(message(std::string("--type F16 --threads ") + count),
              std::string("bonsai-quantize: --threads: expected 1 to 1024, found ") + count + "\n");
  }
  for (const char *options :
       {"", "--type", "--type F16 --threads few", "--type F16 --colour blue", "more --type F16"}) {
    EXPECT_TRUE(message(options).ends_with("; see bonsai-quantize --help\n")) << options;
  }
  EXPECT_EQ(test::run_shell("bonsai-quantize a.gguf --type F16").err,
            "bonsai-quantize: expected the file to read and the file to write; see bonsai-quantize --help\n");
  EXPECT_EQ(test::files_in(directory_), std::vector<std::string>{"in.gguf"});
}

TEST_F(QuantizeBadInput, AnOutputThatCannotBeMadeIsNamed) {
  write_input({make_tensor("a.weight", {32, 2}, random_weights(64))});
  const std::string path = directory_.file("missing/out.gguf");
  const Outcome outcome =
      test::run_shell("bonsai-quantize " + test::in_quotes(input()) + " " + test::in_quotes(path) + " --type F16");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.err.starts_with("bonsai-quantize: " + path + ": cannot create ")) << outcome.err;
}

TEST_F(QuantizeBadInput, AFullDiskKeepsTheOldOutputAndLeavesNothingElse) {
  write_input({make_tensor("a.weight", {1024, 1024}, random_weights(1024 * 1024))});
  test::write_file(output(), "the old one");
  const Outcome outcome = test::run_shell("ulimit -f 2048; exec bonsai-quantize " + test::in_quotes(input()) + " " +
                                          test::in_quotes(output()) + " --type F16");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai-quantize: " + output() + ": cannot write: File too large\n");
  EXPECT_EQ(test::files_in(directory_), (std::vector<std::string>{"in.gguf", "out.gguf"}));
  EXPECT_EQ(test::read_file(output()), "the old one");
}

TEST_F(QuantizeBadInput, ATableThatCannotBePrintedIsAFailure) {
  write_input({make_tensor("a.weight", {32, 2}, random_weights(64))});
  const Outcome outcome = quantize("--type F16 --table >/dev/full");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai-quantize: cannot print: No space left on device\n");
}

// A pipe whose only reader has gone: `bonsai-quantize ... --table | head -1`.
TEST_F(QuantizeBadInput, ATableThatNobodyReadsIsNone) {
  write_input({make_tensor("a.weight", {32, 2}, random_weights(64))});
  const std::string pipe = test::in_quotes(directory_.file("pipe"));
  const Outcome outcome = test::run_shell("mkfifo " + pipe + "; exec 3<>" + pipe + " 4>" + pipe + " 3<&-; rm " + pipe +
                                          "; bonsai-quantize " + test::in_quotes(input()) + " " +
                                          test::in_quotes(output()) + " --type F16 --table >&4");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(test::files_in(directory_), (std::vector<std::string>{"in.gguf", "out.gguf"}));
}

TEST_F(QuantizeBadInput, ASignalLeavesNothingBehind) {
  gguf::FileBytes header;
  header.header(1, 0).tensor("a.weight", {4096, 1 << 20}, 1, 0).align();
  test::write_file(input(), {reinterpret_cast<const char *>(header.bytes().data()), header.size()});
  fs::resize_file(input(), header.size() + (uint64_t{4096} << 20) * 2);  // a hole of 8 GiB: minutes of work
  for (const auto &[signal, exit_code] : {std::pair("TERM", 143), std::pair("HUP", 129)}) {
    const Outcome outcome = test::run_and_signal(
        "bonsai-quantize " + test::in_quotes(input()) + " " + test::in_quotes(output()) + " --type Q4_0", signal,
        directory_);
    EXPECT_EQ(outcome.exit_code, exit_code);
    EXPECT_EQ(outcome.err, "bonsai-quantize: interrupted, nothing was written\n");
    EXPECT_EQ(test::files_in(directory_), std::vector<std::string>{"in.gguf"});
  }
}

TEST_F(QuantizeBadInput, ACallerThatSaysStopStopsIt) {
  write_input({make_tensor("a.weight", {1024, 4096}, random_weights(1024 * 4096))});
  Request request;
  request.input = input();
  request.output = output();
  request.format = &quant::traits(Format::kQ8_0);
  uint64_t calls = 0, last = 0;
  const auto result = bonsai::quantize::quantize(request, [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(total, 1024u * 4096);
    EXPECT_GE(done, last);
    last = done;
    return ++calls < 3;
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "interrupted, nothing was written");
  EXPECT_EQ(calls, 3u);
  EXPECT_EQ(test::files_in(directory_), std::vector<std::string>{"in.gguf"});
}

}  // namespace
}  // namespace bonsai::quantize
