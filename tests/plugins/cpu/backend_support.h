// Drives a CPU backend through its C ABI alone: devices, tiny models on them, sessions and batches that clean up after
// themselves and turn an unexpected failure into a test failure.
#pragma once

#include <bonsai/backend.h>

#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/model/weights.h"
#include "tests/model/tiny_model.h"
#include "tools/plugin-check/batch.h"

namespace bonsai::test {

// What is tested: the CPU backend, where nothing else is named.
#ifndef BONSAI_TESTED_PLUGIN
#define BONSAI_TESTED_PLUGIN BONSAI_CPU_PLUGIN
#endif
const std::string kPlugin = BONSAI_TESTED_PLUGIN;

// The table of a backend; fails the test and throws if it cannot be loaded.
const bonsai_backend_api &load_backend(const std::string &path);

// A bonsai_error ready to be filled.
bonsai_error empty_error();

// Throws std::runtime_error with the message unless `status` is BONSAI_OK.
void require_ok(bonsai_status status, const bonsai_error &error);

using DeviceOptions = std::vector<std::pair<std::string, std::string>>;

class OpenDevice {
 public:
  explicit OpenDevice(const std::string &plugin, const DeviceOptions &options = {});
  ~OpenDevice();
  OpenDevice(const OpenDevice &) = delete;
  OpenDevice &operator=(const OpenDevice &) = delete;

  const bonsai_backend_api &api;
  bonsai_device *handle = nullptr;
  bonsai_device_status status() const;
};

// A tiny model's file, opened and bound.
struct LoadedModel {
  explicit LoadedModel(const TinyModel &options);
  TinyModelFile file;
  model::Model model;
};

// Which part of a model a session gets, and how its weights are uploaded.
struct UploadOptions {
  uint32_t first_layer = 0;
  uint32_t layers = 0;  // 0: all
  bool embedding = true;
  bool head = true;
  bool stacked = true;  // Q, K and V, and gate and up, as the parts of one weight
  bool borrowed = true;
  uint32_t positions = 256;  // rows of the RoPE tables
};

// A model's weights on a device and the spec that names them.
class UploadedModel {
 public:
  UploadedModel(OpenDevice &device, const model::Model &model, const UploadOptions &options = {});
  ~UploadedModel();
  UploadedModel(const UploadedModel &) = delete;
  UploadedModel &operator=(const UploadedModel &) = delete;

  OpenDevice &device;
  const model::Model &model;
  bonsai_model_spec spec{};
  std::deque<bonsai_layer_spec> layers;  // spec.layers points at them; tests may break them
  std::deque<bonsai_weight_slice> slices;

 private:
  bonsai_weight *upload(const std::vector<const gguf::Tensor *> &tensors, bonsai_weight_use uses, bool borrowed);
  const bonsai_weight_slice *slice(const bonsai_weight *weight, uint64_t first_row, uint64_t rows);
  void add_layer(const model::LayerWeights &weights, const UploadOptions &options);

  std::vector<bonsai_weight *> weights_;
  std::vector<const bonsai_layer_spec *> layer_pointers_;
  model::RopeTable rope_;
};

// A small configuration: 16 blocks of 16, up to 64 tokens, 4 sequences, 64 outputs.
bonsai_session_config small_config();

using TestBatch = check::Batch;
using TestOutputs = check::Outputs;

class OpenSession {
 public:
  OpenSession(UploadedModel &model, const bonsai_session_config &config);
  ~OpenSession();
  OpenSession(const OpenSession &) = delete;
  OpenSession &operator=(const OpenSession &) = delete;

  // Submits and waits; throws on failure.
  void forward(TestBatch &batch, const TestOutputs &outputs);
  // Runs tokens of one sequence at positions from `start`, over `blocks`; the logits of the last.
  std::vector<float> logits(const std::vector<int32_t> &tokens, uint32_t start, const std::vector<uint32_t> &blocks);

  UploadedModel &model;
  const bonsai_backend_api &api;
  bonsai_session *handle = nullptr;
};

// One plugin, with one tier forced. An emulated tier is slow.
struct Tier {
  std::string plugin, isa, kernel;
  bool emulated = false;
};

// The tiers that this machine can run, and over an emulation those that it cannot; portable is the first.
std::vector<Tier> testable_tiers();

// The relative L2 error that is allowed, and what 8-bit activations come to on tiny random models: rounding
// costs 0.4 % in each of nine products in a row, and random weights forgive nothing. On a trained model
// the promised 2e-2 holds: seedling_test.cpp.
inline constexpr double kFloatBound = 1e-4;
inline constexpr double kQuantizedBound = 3e-2;

// |values - expected| / |expected|, of floats or doubles. Precondition: as many values as expected.
double relative_error(const auto &values, const std::vector<double> &expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (values[i] - expected[i]) * (values[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

// Whether a format's products take activations as they are, rather than rounded to 8 bits.
bool takes_floats(quant::Format format);

// The formats whose matrices a backend takes.
std::vector<quant::Format> matrix_formats(const std::string &plugin);

// A tiny model of one format, with rows of whole blocks.
TinyModel tiny_model_of(quant::Format format);

// That a call, which is given `&error`, fails with this status and this message.
#define BONSAI_EXPECT_FAILS(call, expected_status, expected_message) \
  do {                                                               \
    bonsai_error error = ::bonsai::test::empty_error();              \
    EXPECT_EQ(call, bonsai_status{expected_status});                 \
    EXPECT_EQ(error.code, bonsai_status{expected_status});           \
    EXPECT_STREQ(error.message, expected_message);                   \
  } while (false)

// `n` tokens below `vocab` that follow no pattern, the same every time.
std::vector<int32_t> some_tokens(uint32_t n, uint32_t vocab, uint32_t seed = 1);

// Blocks 0..n-1, or those in an order that is not sorted.
std::vector<uint32_t> blocks_in_order(uint32_t n);
std::vector<uint32_t> shuffled_blocks(uint32_t n);

}  // namespace bonsai::test
