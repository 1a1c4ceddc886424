// Promises of bonsai-synth: real shapes, models that load and compute something sane, the same file for the same seed.
#include <gtest/gtest.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <cmath>

#include "core/reference/reference.h"
#include "core/text/tokenizer.h"
#include "tests/gguf/split_file.h"
#include "tests/tools/tool.h"
#include "tools/synth/synthesise.h"

namespace bonsai::synth {
namespace {

using quant::Format;
using test::Outcome;

const std::string kSeedling = BONSAI_SOURCE_DIR "/models/seedling-q1_0.gguf";

class Synth : public testing::Test {
 protected:
  Outcome synth(const std::string &options) const {
    return test::run_shell("bonsai-synth " + test::in_quotes(output()) + " " + options);
  }

  // What is said of a run that must fail, less the program's name; and nothing may be left.
  std::string refusal(const std::string &options, int exit_code) const {
    const Outcome outcome = synth(options);
    EXPECT_EQ(outcome.exit_code, exit_code) << options;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(test::files_in(directory_).empty());
    const std::string prefix = "bonsai-synth: ";
    EXPECT_TRUE(outcome.err.starts_with(prefix)) << outcome.err;
    return outcome.err.substr(std::min(prefix.size(), outcome.err.size()));
  }

  model::Model load() const {
    auto model = model::load_model(output());
    if (!model) throw std::runtime_error(model.error().message);
    return std::move(*model);
  }

  // The file that a request gives, on so many threads.
  std::string bytes_of(Request request, int threads) const {
    request.output = output();
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    tbb::task_arena arena(threads);
    const auto made = arena.execute([&] { return synthesise(request, [](uint64_t, uint64_t) { return true; }); });
    EXPECT_TRUE(made) << made.error().message;
    return test::read_file(output());
  }

  std::string output() const { return directory_.file("out.gguf"); }

  test::TemporaryDirectory directory_;
};

uint64_t weights_without_embedding(const Shape &s) {
  const uint64_t attention = uint64_t{s.head_dim} * (2 * s.heads + 2 * s.kv_heads) * s.hidden;
  return s.layers * (attention + uint64_t{3} * s.ffn * s.hidden + 2 * s.hidden + 2 * s.head_dim) + s.hidden;
}

TEST(SynthShapes, HaveTheParametersThatTheModelCardsState) {
  // Qwen3's cards: 0.44, 1.4, 3.6 and 6.95 thousand million parameters besides the embeddings; 36 or 28 layers.
  const std::pair<const char *, double> cards[] = {{"0.6b", 0.44}, {"1.7b", 1.41}, {"4b", 3.63}, {"8b", 6.95}};
  for (const auto &[name, parameters] : cards) {
    const Shape *shape = find_shape(name);
    ASSERT_NE(shape, nullptr) << name;
    EXPECT_NEAR(static_cast<double>(weights_without_embedding(*shape)) * 1e-9, parameters, 0.005) << name;
    EXPECT_EQ(shape->vocab, 151936u) << name;
    EXPECT_EQ(shape->head_dim, 128u) << name;
    EXPECT_EQ(shape->kv_heads, 8u) << name;
    EXPECT_EQ(shape->context, 40960u) << name;
    EXPECT_EQ(shape->rope_base, 1e6) << name;
    EXPECT_EQ(shape->tied, shape->name != "8b") << name;
  }
  EXPECT_EQ(find_shape("70b"), nullptr);
}

TEST(SynthShapes, FitEveryFormat) {
  for (const Shape &shape : shapes()) {
    for (const quant::FormatTraits &format : quant::formats()) {
      for (const uint32_t columns : {shape.hidden, shape.ffn, shape.heads * shape.head_dim}) {
        EXPECT_EQ(columns % format.block_weights, 0u) << shape.name << ' ' << format.name;
      }
    }
  }
}

TEST_F(Synth, EveryFormatLoadsAndComputesSaneLogits) {
  for (const quant::FormatTraits &format : quant::formats()) {
    const Outcome outcome = synth("--shape tiny --type " + std::string(format.name));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out + outcome.err, "") << "no progress bar where there is no terminal";
    const model::Model model = load();
    EXPECT_TRUE(model.warnings.empty()) << model.warnings[0];
    EXPECT_EQ(model.layers[1].ffn_down->format, format.format);
    EXPECT_EQ(model.token_embd->format, format.format);
    EXPECT_EQ(model.file->find_tensor("output_norm.weight")->format, Format::kF32);
    const auto logits = reference::Evaluator(model, reference::KvType::kF16).run(std::vector<int32_t>{72, 105, 33});
    ASSERT_TRUE(logits) << logits.error().message;
    double squares = 0;
    for (const double logit : *logits) squares += logit * logit;
    const double deviation = std::sqrt(squares / static_cast<double>(logits->size()));
    EXPECT_GT(deviation, 0.5) << format.name;
    EXPECT_LT(deviation, 8) << format.name;
  }
}

TEST_F(Synth, TheShapeArrives) {
  ASSERT_EQ(synth("--shape tiny --type q8_0").exit_code, 0);
  const model::Model model = load();
  EXPECT_EQ(model.config.name, "Synthetic tiny Q8_0");
  EXPECT_EQ(model.config.layers, 2u);
  EXPECT_EQ(model.config.hidden, 256u);
  EXPECT_EQ(model.config.ffn, 768u);
  EXPECT_EQ(model.config.heads, 4u);
  EXPECT_EQ(model.config.kv_heads, 2u);
  EXPECT_EQ(model.config.head_dim, 64u);
  EXPECT_EQ(model.config.vocab, 512u);
  EXPECT_EQ(model.config.context, 1024u);
  EXPECT_EQ(model.config.rope_base, 10000);
  EXPECT_EQ(model.config.rope_scaling.kind, model::RopeScaling::Kind::kNone);
  EXPECT_TRUE(model.tied);
}

TEST_F(Synth, AnUntiedHeadIsAMatrixOfItsOwn) {
  ASSERT_EQ(synth("--shape tiny --type Q1_0 --untied").exit_code, 0);
  const model::Model model = load();
  EXPECT_FALSE(model.tied);
  EXPECT_EQ(model.head->shape, model.token_embd->shape);
  EXPECT_FALSE(std::ranges::equal(model.head->data, model.token_embd->data));
}

TEST_F(Synth, YarnStretchesTheContext) {
  ASSERT_EQ(synth("--shape tiny --type Q1_0 --yarn 4").exit_code, 0);
  model::Config config = load().config;
  EXPECT_EQ(config.rope_scaling.kind, model::RopeScaling::Kind::kYarn);
  EXPECT_EQ(config.rope_scaling.factor, 4);
  EXPECT_EQ(config.rope_scaling.original_context, 16384u) << "as Bonsai-8B has it";
  EXPECT_EQ(config.context, 65536u);
  ASSERT_EQ(synth("--shape tiny --type Q1_0 --yarn 2.5 --yarn-original 256").exit_code, 0);
  config = load().config;
  EXPECT_EQ(config.rope_scaling.factor, 2.5);
  EXPECT_EQ(config.context, 640u);
}

TEST_F(Synth, TheSeedDecidesTheBytesAndTheThreadsDoNot) {
  Request request;
  request.shape = *find_shape("tiny");
  request.shape.vocab = 8192;  // an embedding of eight pieces
  request.format = Format::kF32;
  request.seed = 7;
  const std::string expected = bytes_of(request, 1);
  for (const int threads : {2, 5}) EXPECT_TRUE(bytes_of(request, threads) == expected) << threads;
  request.seed = 8;
  EXPECT_FALSE(bytes_of(request, 2) == expected);
}

TEST_F(Synth, ANewRunGivesTheSameFileAndOneIsTheUsualSeed) {
  ASSERT_EQ(synth("--shape tiny --type Q4_K --seed 1").exit_code, 0);
  const std::string first = test::read_file(output());
  ASSERT_EQ(synth("--shape tiny --type q4_k").exit_code, 0);
  EXPECT_TRUE(test::read_file(output()) == first);
}

TEST_F(Synth, EveryByteIsATokenWithoutAVocabulary) {
  ASSERT_EQ(synth("--shape tiny --type Q1_0").exit_code, 0);
  auto tokenizer = text::read_tokenizer(*load().file).and_then(text::Tokenizer::create);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto ids = tokenizer->encode("A \xC3\xA9<|im_end|>", text::SpecialTokens::kParse);
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(ids->size(), 5u);
  EXPECT_EQ(ids->back(), 258);
}

TEST_F(Synth, AVocabularyIsCopiedAndPadded) {
  ASSERT_EQ(synth("--shape tiny --type Q1_0 --vocab-from " + test::in_quotes(kSeedling)).exit_code, 1)
      << "more tokens than rows";
  Request request;
  request.shape = *find_shape("tiny");
  request.shape.vocab = 16384;
  request.format = Format::kQ1_0_G128;
  request.vocabulary_file = kSeedling;
  bytes_of(request, 2);
  auto file = gguf::File::open(kSeedling);
  ASSERT_TRUE(file) << file.error().message;
  auto expected = text::read_tokenizer(*file);
  ASSERT_TRUE(expected) << expected.error().message;
  const size_t n_tokens = expected->tokens.size();
  text::pad_tokens(*expected, 16384);
  const auto data = text::read_tokenizer(*load().file);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_LT(n_tokens, 16384u);
  EXPECT_EQ(data->tokens, expected->tokens);
  EXPECT_EQ(data->types, expected->types);
  EXPECT_EQ(data->merges, expected->merges);
  EXPECT_EQ(data->eos, expected->eos);
  EXPECT_EQ(data->pre, expected->pre);
}

TEST_F(Synth, UsageErrorsExitWithTwo) {
  EXPECT_EQ(refusal("--shape 70b --type F16", 2), "--shape: expected one of tiny, 0.6b, 1.7b, 4b, 8b; found '70b'\n");
  const std::string unknown = refusal("--shape tiny --type Q9_9", 2);
  EXPECT_TRUE(unknown.starts_with("--type: expected one of F32, F16, ")) << unknown;
  EXPECT_TRUE(unknown.ends_with("; found 'Q9_9'\n")) << unknown;
  const std::string tiny = "--shape tiny --type F16 ";
  EXPECT_EQ(refusal(tiny + "--yarn 1", 2), "--yarn: expected a factor above 1 and at most 64, found 1\n");
  EXPECT_EQ(refusal(tiny + "--yarn 65", 2), "--yarn: expected a factor above 1 and at most 64, found 65\n");
  EXPECT_EQ(refusal(tiny + "--yarn nan", 2), "--yarn: expected a factor above 1 and at most 64, found nan\n");
  EXPECT_EQ(refusal(tiny + "--yarn 2 --yarn-original 100", 2),
            "--yarn-original: expected 128 to 1048576 positions, found 100\n");
  EXPECT_EQ(refusal(tiny + "--yarn-original 1024", 2), "--yarn-original: expected --yarn too\n");
  for (const char *options : {"", "--shape tiny", "--type F16", "more --shape tiny", "--sha tiny --type F16",
                              "--shape tiny --type F16 --yarn -", "--shape tiny --type F16 --colour blue"}) {
    EXPECT_TRUE(refusal(options, 2).ends_with("; see bonsai-synth --help\n")) << options;
  }
  for (const char *seed : {"x", "-1", "1.5", "18446744073709551616", "''"}) {
    const std::string found = std::string(seed) == "''" ? "" : seed;
    EXPECT_EQ(refusal(tiny + "--seed " + seed, 2),
              "--seed: expected a whole number from 0 to 18446744073709551615, found '" + found + "'\n");
  }
  const Outcome full = test::run_shell("bonsai-synth --help >/dev/full");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_EQ(full.err, "bonsai-synth: cannot print: No space left on device\n");
  EXPECT_EQ(test::run_shell("bonsai-synth --shape tiny --type F16").err,
            "bonsai-synth: expected the file to write; see bonsai-synth --help\n");
}

TEST_F(Synth, AVocabularyThatCannotBeUsedIsNamed) {
  EXPECT_EQ(refusal("--shape tiny --type F16 --vocab-from /nowhere.gguf", 1),
            "/nowhere.gguf: cannot open: No such file or directory\n");
  const std::string too_many = refusal("--shape tiny --type F16 --vocab-from " + test::in_quotes(kSeedling), 1);
  EXPECT_TRUE(too_many.starts_with(kSeedling + ": ")) << too_many;
  EXPECT_TRUE(too_many.ends_with(" tokens do not fit the shape's embedding of 512 rows\n")) << too_many;
}

TEST_F(Synth, TheFileThatTheVocabularyComesFromIsNoOutput) {
  ASSERT_EQ(synth("--shape tiny --type F16").exit_code, 0);
  const std::string before = test::read_file(output());
  const Outcome outcome = synth("--shape tiny --type F16 --vocab-from " + test::in_quotes(output()));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai-synth: " + output() + ": is the input " + output() + ", expected another file\n");
  EXPECT_TRUE(test::read_file(output()) == before);
  auto file = gguf::File::open(output());
  ASSERT_TRUE(file);
  const std::string part = test::split_file(*file, directory_.file("part"), 2)[1];
  std::filesystem::rename(part, output());
  std::filesystem::create_symlink(output(), part);
  const std::string part_before = test::read_file(part);
  const Outcome later =
      synth("--shape tiny --type F16 --vocab-from " + test::in_quotes(directory_.file("part-00001-of-00002.gguf")));
  EXPECT_EQ(later.exit_code, 1);
  EXPECT_EQ(later.err, "bonsai-synth: " + output() + ": is the input " + part + ", expected another file\n");
  EXPECT_TRUE(test::read_file(part) == part_before);
}

TEST_F(Synth, AFullDiskLeavesNothingBehind) {
  const Outcome outcome =
      test::run_shell("ulimit -f 2048; exec bonsai-synth --shape tiny --type F16 " + test::in_quotes(output()));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai-synth: " + output() + ": cannot write: File too large\n");
  EXPECT_TRUE(test::files_in(directory_).empty());
}

TEST_F(Synth, ALinkStaysAndItsTargetIsReplaced) {
  test::write_file(directory_.file("target"), "the old one");
  std::filesystem::create_symlink("target", output());
  const Outcome outcome = synth("--shape tiny --type Q1_0");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::is_symlink(output()));
  EXPECT_EQ(test::read_file(directory_.file("target")).substr(0, 4), "GGUF");
  EXPECT_EQ(test::files_in(directory_), (std::vector<std::string>{"out.gguf", "target"}));
}

// Closed, full, and a pipe whose only reader has gone.
TEST_F(Synth, AStderrThatTakesNothingChangesNoExitCode) {
  const std::string fifo = test::in_quotes(directory_.file("fifo"));
  for (const std::string &stderr_is : {std::string("exec 2>&-"), std::string("exec 2>/dev/full"),
                                       "mkfifo " + fifo + "; exec 3<>" + fifo + " 2>" + fifo + " 3<&-"}) {
    const Outcome outcome =
        test::run_shell(stderr_is + "; bonsai-synth --shape none --type F32 " + test::in_quotes(output()));
    EXPECT_EQ(outcome.exit_code, 2) << stderr_is;
    EXPECT_EQ(outcome.err, "") << stderr_is;
  }
}

TEST_F(Synth, ASignalLeavesNothingBehind) {
  // Tens of gigabytes that are never written: the first ones already take longer than the signal.
  const Outcome outcome =
      test::run_and_signal("bonsai-synth --shape 8b --type F32 " + test::in_quotes(output()), "TERM", directory_);
  EXPECT_EQ(outcome.exit_code, 143);
  EXPECT_EQ(outcome.err, "bonsai-synth: interrupted, nothing was written\n");
  EXPECT_TRUE(test::files_in(directory_).empty());
}

TEST_F(Synth, SaysItsVersion) {
  const Outcome outcome = test::run_shell("bonsai-synth --version");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "bonsai-synth " BONSAI_VERSION "\n");
}

TEST_F(Synth, HelpGoesToStdout) {
  const Outcome outcome = test::run_shell("bonsai-synth --help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.out.starts_with("Usage: bonsai-synth --shape SHAPE --type TYPE")) << outcome.out;
  EXPECT_EQ(outcome.out.find("--output"), std::string::npos) << "the file is named without an option";
  EXPECT_EQ(outcome.err, "");
}

}  // namespace
}  // namespace bonsai::synth
