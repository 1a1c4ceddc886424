// Promises of bonsai-convert about what a checkpoint says of generating texts beside its tokenizer's files.
#include <gtest/gtest.h>

#include "core/text/tokenizer.h"
#include "tests/tools/convert_fixture.h"

namespace bonsai::convert {
namespace {

constexpr int32_t kText = 258, kStart = 259, kEnd = 260;  // <|endoftext|>, <|im_start|>, <|im_end|>

class ConvertGeneration : public Convert {
 protected:
  // Converts with this in generation_config.json.
  Outcome convert_with(const std::string &generation_config) {
    checkpoint_.write(input());
    test::write_file(input() + "/generation_config.json", generation_config);
    return convert_input();
  }

  text::TokenizerData tokenizer() const {
    auto data = text::read_tokenizer(*load().file);
    if (!data) throw std::runtime_error(data.error().message);
    return std::move(*data);
  }

  TinyCheckpoint checkpoint_;
};

TEST_F(ConvertGeneration, EndsThatOnlyTheGenerationNamesArrive) {
  const Outcome outcome = convert_with(R"({"eos_token_id": [257, 258]})");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const text::TokenizerData data = tokenizer();
  EXPECT_EQ(data.eos, kText) << "the tokenizer's";
  EXPECT_EQ(data.more_eos, std::vector<int32_t>{257});
  const auto created = text::Tokenizer::create(data);
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_TRUE(created->is_end_of_generation(257));
}

TEST_F(ConvertGeneration, EndsThatOnlyTheConfigurationNamesArrive) {
  checkpoint_.tokenizer_config.erase("eos_token");
  checkpoint_.config["eos_token_id"] = kStart;
  ASSERT_EQ(convert(checkpoint_).exit_code, 0);
  EXPECT_EQ(tokenizer().eos, kStart);
  EXPECT_TRUE(tokenizer().more_eos.empty());
  checkpoint_.config["eos_token_id"] = {kStart, kEnd, 257};
  ASSERT_EQ(convert_with(R"({"eos_token_id": 260})").exit_code, 0);
  EXPECT_EQ(tokenizer().eos, kEnd);
  EXPECT_EQ(tokenizer().more_eos, (std::vector<int32_t>{kStart, 257}));
}

// As Qwen3's checkpoints have it: gguf-py writes a bos for these, too, and no text begins with it.
TEST_F(ConvertGeneration, BosAndPadThatTheTokenizerLacksAreTheConfigurations) {
  checkpoint_.tokenizer_config["bos_token"] = nullptr;
  checkpoint_.tokenizer_config["pad_token"] = nullptr;
  checkpoint_.tokenizer_config["add_bos_token"] = false;
  checkpoint_.config["bos_token_id"] = kStart;
  checkpoint_.config["pad_token_id"] = kEnd;
  ASSERT_EQ(convert(checkpoint_).exit_code, 0);
  EXPECT_EQ(tokenizer().bos, kStart);
  EXPECT_EQ(tokenizer().pad, kEnd);
  EXPECT_FALSE(tokenizer().add_bos);
  checkpoint_.tokenizer_config["bos_token"] = "<|endoftext|>";
  ASSERT_EQ(convert(checkpoint_).exit_code, 0);
  EXPECT_EQ(tokenizer().bos, kText) << "the tokenizer's goes first";
}

TEST_F(ConvertGeneration, TheAdvisedSamplingArrives) {
  const Outcome outcome = convert_with(
      R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0, "repetition_penalty": 1.05})");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const model::Model model = load();
  const auto expect_float = [&](const std::string &key, float expected) {
    const gguf::Value *value = model.file->find("general.sampling." + key);
    ASSERT_NE(value, nullptr) << key;
    EXPECT_EQ(value->type, gguf::ValueType::kFloat32) << key;
    EXPECT_EQ(value->as_number(), expected) << key;
  };
  expect_float("temp", 0.6f);
  expect_float("top_p", 0.95f);
  expect_float("min_p", 0);
  expect_float("penalty_repeat", 1.05f);
  const gguf::Value *top_k = model.file->find("general.sampling.top_k");
  ASSERT_NE(top_k, nullptr);
  EXPECT_EQ(top_k->type, gguf::ValueType::kInt32);
  EXPECT_EQ(top_k->as_int(), 20);
}

TEST_F(ConvertGeneration, WithoutSamplingTheLikeliestTokenIsTaken) {
  ASSERT_EQ(convert_with(R"({"do_sample": false, "temperature": 0.6, "top_k": 20})").exit_code, 0);
  const model::Model greedy = load();
  const gguf::Value *temperature = greedy.file->find("general.sampling.temp");
  ASSERT_NE(temperature, nullptr);
  EXPECT_EQ(temperature->as_number(), 0);
  const Outcome outcome = convert_with(R"({"do_sample": 0, "temperature": 0.5})");
  EXPECT_EQ(outcome.err, "bonsai-convert: " + input() +
                             "/generation_config.json: do_sample: expected true or false, found 0; left out\n");
  const model::Model sampled = load();
  EXPECT_EQ(sampled.file->find("general.sampling.temp")->as_number(), 0.5);
}

TEST_F(ConvertGeneration, WhatIsOutOfRangeIsNamedAndLeftOut) {
  checkpoint_.config["eos_token_id"] = -1;
  const Outcome outcome =
      convert_with(R"({"temperature": -1, "top_k": 0.5, "top_p": 1.5, "min_p": "x", "repetition_penalty": 0,)"
                   R"( "eos_token_id": [260, 264]})");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string file = "bonsai-convert: " + input() + "/generation_config.json: ";
  EXPECT_EQ(outcome.err,
            file + "temperature: expected a number of at least 0, found -1; left out\n" + file +
                "top_k: expected a whole number of at least 0, found 0.5; left out\n" + file +
                "top_p: expected a number from 0 to 1, found 1.5; left out\n" + file +
                "min_p: expected a number from 0 to 1, found \"x\"; left out\n" + file +
                "repetition_penalty: expected a number above 0, found 0; left out\n" + file +
                "eos_token_id: expected a token's number below 264, found 264; left out\nbonsai-convert: " + input() +
                "/config.json: eos_token_id: expected a token's number below 264, found -1; left out\n");
  const model::Model model = load();
  for (const auto &[key, value] : model.file->metadata()) EXPECT_FALSE(key.starts_with("general.sampling")) << key;
  EXPECT_EQ(tokenizer().more_eos, std::vector<int32_t>{kEnd});
}

// Numbers that are small or negative to whoever reads them as 32 or 64 bits with a sign.
TEST_F(ConvertGeneration, HugeNumbersAreNotTakenForOthers) {
  const Outcome outcome = convert_with(
      R"({"top_k": 18446744073709551615, "eos_token_id": [260, 18446744073709551615, 9223372036854775813]})");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string file = "bonsai-convert: " + input() + "/generation_config.json: ";
  for (const char *line : {"top_k: expected a whole number of at least 0, found 18446744073709551615; left out\n",
                           "eos_token_id: expected a token's number below 264, found 18446744073709551615; left out\n",
                           "eos_token_id: expected a token's number below 264, found 9223372036854775813; left out\n"})
    EXPECT_NE(outcome.err.find(file + line), std::string::npos) << outcome.err;
  const model::Model model = load();
  EXPECT_EQ(model.file->find("general.sampling.top_k"), nullptr);
}

TEST_F(ConvertGeneration, AFileThatCannotBeReadIsIgnored) {
  const Outcome outcome = convert_with("[");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "bonsai-convert: " + input() + "/generation_config.json: malformed JSON at byte 2; ignored\n");
}

}  // namespace
}  // namespace bonsai::convert
