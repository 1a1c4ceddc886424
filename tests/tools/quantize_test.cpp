// Promises of bonsai-quantize: every matrix arrives in the format that was asked for, nothing else changes, and what
// was lost is told.
#include <algorithm>
#include <cmath>

#include "core/model/weights.h"
#include "tests/gguf/file_bytes.h"
#include "tests/model/tiny_model.h"
#include "tests/tools/quantize_fixture.h"

namespace bonsai::quantize {
namespace {

namespace fs = std::filesystem;
using quant::Format;
using test::Outcome;

const std::string kSeedling = BONSAI_SOURCE_DIR "/models/seedling-q1_0.gguf";

TEST_F(Quantize, EveryFormatOfTheTableIsWhatItsEncoderMakes) {
  const std::vector<float> matrix = random_weights(256 * 20), norm = random_weights(256, 2);
  write_input({make_tensor("a.weight", {256, 20}, matrix), make_tensor("norm.weight", {256}, norm)});
  for (const quant::FormatTraits &format : quant::formats()) {
    for (const std::string_view name : {format.name, format.gguf_name}) {
      const Outcome outcome = quantize("--type " + std::string(name));
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_EQ(outcome.err, "") << name;
      EXPECT_EQ(outcome.out, "") << name;
      const gguf::File file = open_output();
      expect_blocks(file, make_tensor("a.weight", {256, 20}, matrix, format.format));
      expect_blocks(file, make_tensor("norm.weight", {256}, norm));
    }
  }
}

// The loader takes a norm of n x 1 for the vector that it is, and takes it in no other format than a float's.
TEST_F(Quantize, AVectorIsOneWhateverItsDimensions) {
  const std::vector<float> norm = random_weights(256);
  const InputTensor row = make_tensor("blk.0.attn_norm.weight", {256, 1}, norm, Format::kF32);
  const InputTensor deep = make_tensor("output_norm.weight", {256, 1, 1, 1}, norm, Format::kF32);
  write_input({row, deep, make_tensor("a.weight", {256, 2}, random_weights(512))});
  const Outcome outcome = quantize("--type Q4_0 --keep '*norm*=Q8_0'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "bonsai-quantize: --keep '*norm*=Q8_0': matches no matrix\n");
  const gguf::File file = open_output();
  expect_blocks(file, row);
  expect_blocks(file, deep);
  EXPECT_EQ(file.find_tensor("a.weight")->format, Format::kQ4_0);
}

TEST_F(Quantize, EveryFloatCanBeTheSource) {
  const std::vector<float> weights = random_weights(128 * 3);
  for (const Format from : {Format::kF32, Format::kF16, Format::kBF16}) {
    const InputTensor source = make_tensor("a.weight", {128, 3}, weights, from);
    write_input({source, make_tensor("norm.weight", {128}, random_weights(128), from)});
    std::vector<float> rounded(weights.size());
    quant::traits(from).decode(source.blocks.data(), rounded.data(), rounded.size());
    for (const Format to : {Format::kF32, Format::kF16, Format::kBF16, Format::kQ8_0}) {
      const Outcome outcome = quantize("--type " + std::string(quant::traits(to).name));
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      const gguf::File file = open_output();
      expect_blocks(file, make_tensor("a.weight", {128, 3}, rounded, to));
      EXPECT_EQ(file.find_tensor("norm.weight")->format, Format::kF32) << "vectors become F32";
    }
  }
}

TEST_F(Quantize, AnUnpackedOneBitModelComesBackBitForBit) {
  const std::string halves = directory_.file("halves.gguf");
  ASSERT_EQ(
      test::run_shell("bonsai-quantize " + test::in_quotes(kSeedling) + " " + test::in_quotes(halves) + " --type F16")
          .exit_code,
      0);
  EXPECT_EQ(open(halves).find_tensor("token_embd.weight")->format, Format::kF16);
  const Outcome outcome = test::run_shell("bonsai-quantize " + test::in_quotes(halves) + " " +
                                          test::in_quotes(output()) + " --type Q1_0_G128");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const gguf::File seedling = open(kSeedling), back = open_output();
  ASSERT_EQ(back.tensors().size(), seedling.tensors().size());
  for (const gguf::Tensor &tensor : seedling.tensors()) {
    expect_blocks(back,
                  {std::string(tensor.name), tensor.shape, tensor.format, {tensor.data.begin(), tensor.data.end()}});
  }
  auto model = model::load_model(output());
  EXPECT_TRUE(model) << model.error().message;
}

TEST_F(Quantize, AWholeModelLoadsInAnyFormat) {
  test::TinyModel tiny{.hidden = 256, .heads = 8, .tied = false, .format = Format::kBF16};
  test::write_tiny_model(tiny, input());
  for (const char *type : {"F8_E4M3", "Q5_1", "Q6_K", "TQ1_0", "TQ1_0_G128"}) {
    const Outcome outcome = quantize(std::string("--keep output.weight=F16 --type ") + type);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    auto model = model::load_model(output());
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->layers[1].ffn_down->format, quant::find_format(type)->format);
    EXPECT_EQ(model->head->format, Format::kF16);
    EXPECT_EQ(model->config.hidden, 256u);
    EXPECT_TRUE(model->warnings.empty()) << model->warnings[0];
  }
}

// A scale that is too small for a half becomes 0, and with it the weights. What was zero before is no news.
TEST_F(Quantize, ATensorOfWhichOnlyZerosAreLeftIsNamed) {
  std::vector<float> tiny = random_weights(256), one_is_left = tiny;
  for (float &weight : tiny) weight *= 1e-20f;
  for (size_t i = 1; i < one_is_left.size(); ++i) one_is_left[i] *= 1e-20f;
  write_input({make_tensor("token_embd.weight", {128, 2}, tiny), make_tensor("blk.0.ffn_up.weight", {128, 2}, tiny),
               make_tensor("blk.1.ffn_up.weight", {128, 2}, tiny),
               make_tensor("zero.weight", {128, 2}, std::vector<float>(256)),
               make_tensor("one.weight", {128, 2}, one_is_left), make_tensor("norm.weight", {256}, tiny)});
  const std::string why = "all weights became 0, as Q8_0 holds none that are so small\n";
  Outcome outcome = quantize("--type Q8_0");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err,
            "bonsai-quantize: token_embd.weight: " + why + "bonsai-quantize: blk.*.ffn_up.weight (2 tensors): " + why);
  outcome = quantize("--type BF16");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "") << "it holds them";
}

TEST_F(Quantize, TheLastRuleThatMatchesWins) {
  const std::vector<float> weights = random_weights(256), norm = random_weights(128);
  std::vector<InputTensor> tensors;
  for (const char *name : {"token_embd", "output", "blk.0.ffn_up", "blk.0.ffn_down", "blk.10.ffn_up"}) {
    tensors.push_back(make_tensor(std::string(name) + ".weight", {128, 2}, weights));
  }
  tensors.push_back(make_tensor("output_norm.weight", {128}, norm));
  write_input(tensors);
  const Outcome outcome = quantize(
      "--type q4_0 --keep '*ffn*=Q8_0' --keep 'output*=f16' --keep 'blk.?.*_up*=q1_0' --keep token_embd.weight=Q4_0 "
      "--keep 'token_embd.weight=pq2_0'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const gguf::File file = open_output();
  const auto format_of = [&](const char *name) { return file.find_tensor(name)->format; };
  EXPECT_EQ(format_of("token_embd.weight"), Format::kTQ2_0_G128);
  EXPECT_EQ(format_of("output.weight"), Format::kF16);
  EXPECT_EQ(format_of("blk.0.ffn_up.weight"), Format::kQ1_0_G128);
  EXPECT_EQ(format_of("blk.0.ffn_down.weight"), Format::kQ8_0);
  EXPECT_EQ(format_of("blk.10.ffn_up.weight"), Format::kQ8_0) << "? is one character";
  EXPECT_EQ(format_of("output_norm.weight"), Format::kF32) << "no rule reaches a vector";
}

TEST_F(Quantize, ARuleThatMatchesNoMatrixIsReported) {
  write_input({make_tensor("a.weight", {32, 2}, random_weights(64)), make_tensor("n.weight", {4}, random_weights(4))});
  const Outcome outcome = quantize("--type Q8_0 --keep 'a.wieght=F16' --keep 'n.*=F16' --keep 'a.*=F16'");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err,
            "bonsai-quantize: --keep 'a.wieght=F16': matches no matrix\n"
            "bonsai-quantize: --keep 'n.*=F16': matches no matrix\n");
}

TEST_F(Quantize, RowsThatDoNotDivideFallBackAndSaySoOnceForEachKind) {
  write_input({make_tensor("blk.0.up.weight", {96, 2}, random_weights(192)),
               make_tensor("blk.1.up.weight", {96, 2}, random_weights(192)),
               make_tensor("blk.0.down.weight", {40, 2}, random_weights(80)),
               make_tensor("output.weight", {256, 2}, random_weights(512))});
  const Outcome outcome = quantize("--type Q4_K --keep 'blk.1.*=TQ2_0_G128'");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err,
            "bonsai-quantize: blk.0.up.weight: rows of 96 do not divide into Q4_K's blocks of 256; written as Q8_0\n"
            "bonsai-quantize: blk.1.up.weight: rows of 96 do not divide into TQ2_0_G128's blocks of 128; written as "
            "Q8_0\n"
            "bonsai-quantize: blk.0.down.weight: rows of 40 do not divide into Q4_K's blocks of 256; written as F16\n");
  const gguf::File file = open_output();
  EXPECT_EQ(file.find_tensor("blk.1.up.weight")->format, Format::kQ8_0);
  EXPECT_EQ(file.find_tensor("blk.0.down.weight")->format, Format::kF16);
  EXPECT_EQ(file.find_tensor("output.weight")->format, Format::kQ4_K);

  EXPECT_EQ(quantize("--type Q4_K").err,
            "bonsai-quantize: blk.*.up.weight (2 tensors): rows of 96 do not divide into Q4_K's blocks of 256; written "
            "as Q8_0\n"
            "bonsai-quantize: blk.0.down.weight: rows of 40 do not divide into Q4_K's blocks of 256; written as F16\n");
}

TEST_F(Quantize, TheTableTellsWhatEachTensorLost) {
  // In Q1_0, d = 0.625: errors 0.375 and 0.125 over weights 1 and 0.5. The norm is copied.
  std::vector<float> weights(256);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = i % 4 == 0 ? 1.0f : -0.5f;
  write_input({make_tensor("blk.0.ffn_up.weight", {128, 2}, weights, Format::kF16),
               make_tensor("zero.weight", {128, 2}, std::vector<float>(256)), make_tensor("n", {2}, {1, 2})});
  const Outcome outcome = quantize("--type Q1_0 --table");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out,  // sqrt((0.375^2 + 3 * 0.125^2) / (1 + 3 * 0.25)) = 0.3273
            "tensor               from        to          relative rms     max error\n"
            "blk.0.ffn_up.weight  F16         Q1_0_G128     3.2733e-01    3.7500e-01\n"
            "zero.weight          F32         Q1_0_G128     0.0000e+00    0.0000e+00\n"
            "n                    F32         F32           0.0000e+00    0.0000e+00\n");
}

TEST_F(Quantize, TheBytesAndTheTableDoNotDependOnTheThreads) {
  write_input({make_tensor("a.weight", {256, 6000}, random_weights(256 * 6000)),
               make_tensor("b.weight", {1023, 9}, random_weights(1023 * 9))});
  std::string bytes, table;
  for (const char *threads : {"--threads 1", "--threads 2", "-t 5", ""}) {
    const Outcome outcome = quantize(std::string("--type Q4_0 --table ") + threads);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::string now = test::read_file(output());
    if (bytes.empty()) {
      bytes = now;
      table = outcome.out;
      expect_blocks(open_output(), make_tensor("a.weight", {256, 6000}, random_weights(256 * 6000), Format::kQ4_0));
    }
    EXPECT_TRUE(now == bytes) << threads;
    EXPECT_EQ(outcome.out, table) << threads;
  }
}

TEST_F(Quantize, ATensorThatHasTheTypeAlreadyIsCopied) {
  InputTensor tensor = make_tensor("a.weight", {128, 2}, random_weights(256), Format::kTQ2_0_G128);
  tensor.blocks[2] = std::byte{0xE4};  // codes 0 to 3: no encoder writes the 3
  write_input({tensor, make_tensor("b.weight", {128, 2}, random_weights(256), Format::kF16)});
  const Outcome outcome = quantize("--type TQ2_0_G128");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  expect_blocks(open_output(), tensor);
}

TEST_F(Quantize, TernaryPackingsBecomeOneAnotherWithoutLoss) {
  const Format packings[] = {Format::kTQ2_0_G128, Format::kQ2_0_G64, Format::kTQ1_0_G128, Format::kTQ2_0,
                             Format::kTQ1_0};
  std::vector<float> weights = random_weights(256 * 3);
  for (float &weight : weights) weight = 0.5f * std::round(weight);
  for (const Format from : packings) {
    write_input({make_tensor("a.weight", {256, 3}, weights, from)});
    for (const Format to : packings) {
      const Outcome outcome = quantize("--type " + std::string(quant::traits(to).name));
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_EQ(decode(open_output().tensors()[0]), weights);
    }
  }
}

TEST_F(Quantize, RequantisingIsAllowedWhereAskedForAndReported) {
  const InputTensor source = make_tensor("a.weight", {128, 2}, random_weights(256), Format::kQ8_0);
  write_input({source, make_tensor("b.weight", {128, 2}, random_weights(256, 3), Format::kQ8_0),
               make_tensor("c.weight", {128, 2}, random_weights(256, 4), Format::kF32)});
  const Outcome outcome = quantize("--type Q4_0 --requantize");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "bonsai-quantize: 2 tensors were Q8_0 already and lost more as Q4_0\n");
  std::vector<float> rounded(256);
  quant::traits(Format::kQ8_0).decode(source.blocks.data(), rounded.data(), rounded.size());
  expect_blocks(open_output(), make_tensor("a.weight", {128, 2}, rounded, Format::kQ4_0));
}

std::vector<std::string> keys_of(const gguf::File &file) {
  std::vector<std::string> keys;
  for (const auto &[key, value] : file.metadata()) keys.emplace_back(key);
  return keys;
}

TEST_F(Quantize, MetadataOfEveryTypeIsCopied) {
  const auto everything = gguf::one_of_everything();
  test::write_file(input(), {reinterpret_cast<const char *>(everything.bytes().data()), everything.size()});
  const Outcome outcome = quantize("--type F16");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const gguf::File before = open(input()), after = open_output();
  std::vector<std::string> keys = keys_of(before);
  keys.insert(keys.end(), {"general.quantization_version", "general.file_type"});
  EXPECT_EQ(keys_of(after), keys);
  EXPECT_EQ(after.alignment(), 64u);
  for (const auto &[key, value] : before.metadata()) {
    const gguf::Value *copy = after.find(key);
    ASSERT_NE(copy, nullptr) << key;
    EXPECT_EQ(copy->type, value.type) << key;
    if (const gguf::Array *array = value.as_array()) {
      EXPECT_EQ(copy->as_array()->element_type, array->element_type) << key;
      EXPECT_TRUE(std::ranges::equal(copy->as_array()->payload, array->payload)) << key;
    } else {
      EXPECT_EQ(copy->as_int(), value.as_int()) << key;
      EXPECT_EQ(copy->as_uint(), value.as_uint()) << key;
      EXPECT_EQ(copy->as_number(), value.as_number()) << key;
      EXPECT_EQ(copy->as_bool(), value.as_bool()) << key;
      EXPECT_EQ(copy->as_string(), value.as_string()) << key;
    }
  }
}

TEST_F(Quantize, MetadataThatWouldLieIsPutRightOrLeftOut) {
  test::TinyModel tiny{.format = Format::kF16};
  tiny.metadata = [](gguf::Writer &writer) {
    writer.set_uint32("general.file_type", 1);
    writer.set_uint32("split.count", 1);
    writer.set_uint32("split.no", 0);
    writer.set_string("quantize.imatrix.file", "of another run");
  };
  test::write_tiny_model(tiny, input());
  const auto file_type = [&](const std::string &options) -> std::optional<uint64_t> {
    EXPECT_EQ(quantize(options).exit_code, 0);
    const gguf::File file = open_output();
    EXPECT_EQ(file.find("general.quantization_version")->as_uint(), 2u);
    EXPECT_EQ(file.find("split.count"), nullptr);
    EXPECT_EQ(file.find("split.no"), nullptr);
    EXPECT_EQ(file.find("quantize.imatrix.file"), nullptr);
    const gguf::Value *value = file.find("general.file_type");
    return value != nullptr ? value->as_uint() : std::nullopt;
  };
  EXPECT_EQ(file_type("--type F32"), 0u);
  EXPECT_EQ(file_type("--type Q8_0"), 7u);
  EXPECT_EQ(file_type("--type Q8_0 --keep 'blk.*=Q4_0'"), 2u) << "what most weights are";
  EXPECT_EQ(file_type("--type Q1_0_G128"), 40u);
  EXPECT_EQ(file_type("--type Q2_0_G64"), 41u);
  EXPECT_EQ(file_type("--type TQ2_0_G128"), std::nullopt) << "llama.cpp has no number for it";
}

TEST_F(Quantize, BlocksThatEndWithTheirScaleComeOutWithTheScaleFirst) {
  gguf::FileBytes bytes;
  bytes.header(1, 1).key("general.quantization_version", gguf::ValueType::kString).text("TQ2_0_G128");
  bytes.tensor("a.weight", {128, 2}, 42, 0).align();
  for (int block = 0; block < 2; ++block) {
    for (int i = 0; i < 32; ++i) bytes.u8(0x24);  // codes 0, 1, 2, 0
    bytes.number(quant::float_to_half(0.5f));
  }
  test::write_file(input(), {reinterpret_cast<const char *>(bytes.bytes().data()), bytes.size()});
  const std::vector<float> weights = decode(open(input()).tensors()[0]);
  for (const char *type : {"TQ2_0_G128", "Q2_0_G64", "F16"}) {
    const Outcome outcome = quantize(std::string("--type ") + type);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const gguf::File file = open_output();
    EXPECT_EQ(file.find("general.quantization_version")->as_uint(), 2u);
    EXPECT_EQ(decode(file.tensors()[0]), weights) << type;
    EXPECT_EQ(weights[2], 0.5f);
  }
}

TEST_F(Quantize, SaysItsVersion) {
  const Outcome outcome = test::run_shell("bonsai-quantize --version");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "bonsai-quantize " BONSAI_VERSION "\n");
}

TEST_F(Quantize, HelpGoesToStdout) {
  const Outcome outcome = test::run_shell("bonsai-quantize --help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.out.starts_with("Usage: bonsai-quantize IN.gguf OUT.gguf --type TYPE")) << outcome.out;
  EXPECT_NE(outcome.out.find("TQ1_0_G128"), std::string::npos) << "lists the types";
  EXPECT_EQ(outcome.err, "");
}

}  // namespace
}  // namespace bonsai::quantize
