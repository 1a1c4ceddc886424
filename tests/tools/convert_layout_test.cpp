// Promises of bonsai-convert about the ways in which checkpoints lie on a disk, and what their configuration leaves
// out.
#include <gtest/gtest.h>

#include "tests/tools/convert_fixture.h"

namespace bonsai::convert {
namespace {

class ConvertLayout : public Convert {};

// In Hugging Face's cache a directory is named after a commit.
TEST_F(ConvertLayout, ASnapshotIsNamedAfterItsRepository) {
  const auto name_of = [&](const std::string &checkpoint) {
    TinyCheckpoint().write(directory_.file(checkpoint));
    const Outcome outcome =
        run_program(in_quotes(directory_.file(checkpoint)) + " " + in_quotes(output()) + " --type F16");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return load().config.name;
  };
  const std::string hash = "/snapshots/b968826d9c46dd6066d109eabc6255188de91218";
  EXPECT_EQ(name_of("models--Qwen--Qwen3-8B" + hash), "Qwen3-8B");
  EXPECT_EQ(name_of("models--tiny" + hash), "tiny");
  EXPECT_EQ(name_of("other" + hash), hash.substr(hash.rfind('/') + 1));
  EXPECT_EQ(name_of("models--Qwen--Qwen3-8B/other/mine"), "mine");
}

TEST_F(ConvertLayout, ShardsWithoutAnIndexAreWhatTheirNamesSay) {
  TinyCheckpoint checkpoint("BF16", false);
  ASSERT_EQ(convert(checkpoint).exit_code, 0);
  const std::string single = test::read_file(output());
  const std::string path = input() + "/model-";
  fs::rename(input() + "/model.safetensors", path + "00001-of-00001.safetensors");
  Outcome outcome = convert_input();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(test::read_file(output()) == single);

  fs::remove(path + "00001-of-00001.safetensors");
  const auto middle = checkpoint.tensors.begin() + 5;
  const std::vector<test::CheckpointTensor> first(checkpoint.tensors.begin(), middle),
      second(middle, checkpoint.tensors.end());
  test::write_file(path + "00001-of-00002.safetensors", test::safetensors(first));
  test::write_file(path + "00002-of-00002.safetensors", test::safetensors(second));
  outcome = convert_input();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(test::read_file(output()) == single);

  fs::remove(output());
  fs::remove(path + "00001-of-00002.safetensors");
  EXPECT_TRUE(refusal_of_input().starts_with("/model-00001-of-00002.safetensors: ")) << "what is missing is named";
  test::write_file(path + "00001-of-00003.safetensors", test::safetensors(first));
  EXPECT_EQ(refusal_of_input(), ": expected the shards of one model, found some of 2 and of 3\n");
}

// What transformers' Qwen3Config has.
TEST_F(ConvertLayout, WhatTheConfigurationLeavesOutIsTheDefaultAndSaid) {
  TinyCheckpoint checkpoint;
  checkpoint.config.erase("rms_norm_eps");
  checkpoint.config.erase("rope_theta");
  Outcome outcome = convert(checkpoint);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string file = "bonsai-convert: " + input() + "/config.json: ";
  EXPECT_EQ(outcome.err, file + "rms_norm_eps: missing; taken to be 1e-06, as by Hugging Face's transformers\n" + file +
                             "rope_theta: missing; taken to be 10000, as by Hugging Face's transformers\n");
  EXPECT_EQ(load().config.rms_eps, 1e-6f);
  EXPECT_EQ(load().config.rope_base, 10000);
  fs::remove(output());

  checkpoint.config.erase("head_dim");
  EXPECT_EQ(refusal(checkpoint), ": model.layers.0.self_attn.q_proj.weight: expected 256 x 128, found 128 x 128\n");
  checkpoint.config.erase("num_key_value_heads");
  EXPECT_EQ(refusal(checkpoint), "/config.json: num_key_value_heads: expected a divisor of the 2 heads, found 32\n");
  checkpoint.config["head_dim"] = 64;
  checkpoint.config["num_key_value_heads"] = nullptr;  // as many as there are heads
  EXPECT_EQ(refusal(checkpoint), ": model.layers.0.self_attn.k_proj.weight: expected 128 x 128, found 64 x 128\n");
}

TEST_F(ConvertLayout, ForeignTensorsOfEveryLayerAreSaidOnce) {
  TinyCheckpoint checkpoint;
  for (int i = 0; i < 40; ++i) checkpoint.tensors.push_back({fmt::format("visual.{}.attn", i), "F32", {1}, "abcd"});
  const Outcome outcome = convert(checkpoint);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "bonsai-convert: visual.*.attn (40 tensors): not part of Qwen3 and left out\n");
}

}  // namespace
}  // namespace bonsai::convert
