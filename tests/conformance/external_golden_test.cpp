// Truth from outside: tests/data/make_external_golden.py computes the logits of three small models with numpy. The
// judge agrees to the rounding of float64, the CPU backend to what 8-bit activations allow.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/gguf/writer.h"
#include "core/model/weights.h"
#include "tools/plugin-check/judge.h"
#include "tools/plugin-check/random.h"
#include "tools/plugin-check/session.h"

namespace bonsai::check {
namespace {

using nlohmann::json;

// The numbers in [-1, 1) that the script makes of a seed.
std::vector<double> uniform(uint64_t seed, size_t count) {
  Random random(seed);
  std::vector<double> numbers(count);
  for (double &number : numbers) number = static_cast<double>(random.next() >> 40) * 0x1p-23 - 1;
  return numbers;
}

struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;  // columns first
};

// In the order in which the script seeds them.
std::vector<Tensor> tensors_of(const json &model) {
  const uint64_t hidden = model["hidden"], ffn = model["ffn"], head_dim = model["head_dim"], vocab = model["vocab"];
  const uint64_t q = model["heads"].get<uint64_t>() * head_dim, kv = model["kv_heads"].get<uint64_t>() * head_dim;
  std::vector<Tensor> tensors = {{"token_embd", {hidden, vocab}}};
  for (uint32_t i = 0; i < model["layers"]; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    for (const Tensor &tensor : {Tensor{"attn_norm", {hidden}},
                                 {"attn_q", {hidden, q}},
                                 {"attn_k", {hidden, kv}},
                                 {"attn_v", {hidden, kv}},
                                 {"attn_q_norm", {head_dim}},
                                 {"attn_k_norm", {head_dim}},
                                 {"attn_output", {q, hidden}},
                                 {"ffn_norm", {hidden}},
                                 {"ffn_gate", {hidden, ffn}},
                                 {"ffn_up", {hidden, ffn}},
                                 {"ffn_down", {ffn, hidden}}}) {
      tensors.push_back({layer + tensor.name, tensor.shape});
    }
  }
  tensors.push_back({"output_norm", {hidden}});
  if (!model["tied"]) tensors.push_back({"output", {hidden, vocab}});
  return tensors;
}

std::vector<float> weights_of(const json &model, const Tensor &tensor, size_t number) {
  const bool is_norm = tensor.shape.size() == 1;
  const double columns = static_cast<double>(tensor.shape[0]);
  std::vector<float> weights;
  for (const double u :
       uniform(model["seed"].get<uint64_t>() * 1000 + number, tensor.shape[0] * (is_norm ? 1 : tensor.shape[1]))) {
    weights.push_back(is_norm ? 1 + static_cast<float>(u / 4) : static_cast<float>(u * std::sqrt(3 / columns)));
  }
  return weights;
}

void write_metadata(const json &model, gguf::Writer &writer) {
  writer.set_string("general.architecture", "qwen3");
  writer.set_uint32("qwen3.block_count", model["layers"]);
  writer.set_uint32("qwen3.context_length", 128);
  writer.set_uint32("qwen3.embedding_length", model["hidden"]);
  writer.set_uint32("qwen3.feed_forward_length", model["ffn"]);
  writer.set_uint32("qwen3.attention.head_count", model["heads"]);
  writer.set_uint32("qwen3.attention.head_count_kv", model["kv_heads"]);
  writer.set_uint32("qwen3.attention.key_length", model["head_dim"]);
  writer.set_uint32("qwen3.attention.value_length", model["head_dim"]);
  writer.set_float32("qwen3.attention.layer_norm_rms_epsilon", 1e-6f);
  writer.set_float32("qwen3.rope.freq_base", model["rope_base"]);
  if (model["yarn_factor"] == 0) return;
  writer.set_string("qwen3.rope.scaling.type", "yarn");
  writer.set_float32("qwen3.rope.scaling.factor", model["yarn_factor"]);
  writer.set_uint32("qwen3.rope.scaling.original_context_length", model["original_context"]);
}

void require(const Result<void> &result) {
  if (!result) throw std::runtime_error(result.error().message);
}

// Writes the model as a GGUF file, loads it and removes the file; the mapping stays.
model::Model load(const json &description) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("bonsai-golden-" + std::to_string(getpid()) + ".gguf");
  {
    gguf::Writer writer = value_of(gguf::Writer::create(path.string()));
    write_metadata(description, writer);
    const std::vector<Tensor> tensors = tensors_of(description);
    for (const Tensor &tensor : tensors) {
      require(writer.add_tensor(tensor.name + ".weight", tensor.shape, quant::Format::kF32));
    }
    require(writer.begin_data());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::vector<float> weights = weights_of(description, tensors[i], i);
      require(writer.write(std::as_bytes(std::span(weights))));
    }
    require(writer.finish());
  }
  auto model = model::load_model(path.string());
  std::filesystem::remove(path);
  return value_of(std::move(model));
}

class ExternalGolden : public testing::TestWithParam<size_t> {
 protected:
  ExternalGolden() {
    std::ifstream file(BONSAI_TEST_DATA "/external-golden.json");
    description = json::parse(file)["models"][GetParam()];
    model = load(description);
    tokens = description["tokens"].get<std::vector<int32_t>>();
  }

  json description;
  model::Model model;
  std::vector<int32_t> tokens;
};

TEST_P(ExternalGolden, WeightsAreThoseOfTheScript) {
  const std::vector<double> first = description["first_weights"];
  for (size_t i = 0; i < first.size(); ++i) {
    float weight;
    std::memcpy(&weight, model.token_embd->data.data() + i * sizeof weight, sizeof weight);
    EXPECT_EQ(weight, first[i]);
  }
  EXPECT_EQ(model.tied, description["tied"].get<bool>());
}

TEST_P(ExternalGolden, TheJudgeAgrees) {
  reference::Evaluator evaluator(model, reference::KvType::kF64);
  const std::vector<std::vector<double>> logits = value_of(evaluator.steps(tokens));
  for (size_t i = 0; i < description["positions"].size(); ++i) {
    const std::vector<double> expected = description["logits"][i];
    const std::vector<double> &actual = logits[description["positions"][i].get<size_t>()];
    ASSERT_EQ(actual.size(), expected.size());
    double difference = 0, norm = 0;
    for (size_t id = 0; id < expected.size(); ++id) {
      difference += (actual[id] - expected[id]) * (actual[id] - expected[id]);
      norm += expected[id] * expected[id];
    }
    EXPECT_LE(std::sqrt(difference / norm), 1e-12) << "position " << description["positions"][i];
  }
}

TEST_P(ExternalGolden, TheCpuBackendAgrees) {
  Context context({.path = BONSAI_CPU_PLUGIN, .device = 0, .options = {}});
  UploadedModel uploaded(context.device(), model, {.positions = 64});
  bonsai_session_config config = usual_config(context, BONSAI_KV_F32);
  config.max_k = 1;  // these vocabularies have fewer tokens than is usual
  Session session(uploaded, config, Path::kForward);
  const std::vector<std::vector<float>> logits = session.logits(tokens, 0, {4, 1, 7});
  Comparison comparison(kFloatBound / 3);  // each row within kFloatBound
  for (size_t i = 0; i < description["positions"].size(); ++i) {
    const std::vector<double> expected = description["logits"][i];
    comparison.add("a row", logits[description["positions"][i].get<size_t>()], expected);
  }
  comparison.finish("all rows");
}

std::string model_name(const testing::TestParamInfo<size_t> &info) {
  constexpr const char *kNames[] = {"Yarn", "Untied", "Gqa4"};
  return kNames[info.param];
}

INSTANTIATE_TEST_SUITE_P(Every, ExternalGolden, testing::Values(0, 1, 2), model_name);

}  // namespace
}  // namespace bonsai::check
