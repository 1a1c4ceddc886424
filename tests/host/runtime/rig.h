// A tiny model on a device, with sequences of tokens whose KV blocks lie in a shuffled order, and the judge beside it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/model/weights.h"
#include "host/backend/registry.h"
#include "host/runtime/executor.h"
#include "tests/model/tiny_model.h"

namespace bonsai::test {

// Where a plugin of this build lies, or one that is for tests only.
std::filesystem::path plugin(const std::string &name);

// Throws std::runtime_error with the message, which fails the test, when a value is missing.
template <class R>
auto value_or_throw(R result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

// A model file, opened on a device of the plugin `backend`.
class Rig {
 public:
  Rig(const TinyModel &description, const std::string &backend);
  Rig(const std::string &path, const std::string &backend);

  const model::Model &model() const { return model_; }
  host::Device &device() { return *device_; }
  const host::DeviceModel &device_model() const { return *uploaded_; }

  // A pool for `n_sequences` of kContext positions. level -1: the best.
  std::unique_ptr<host::Executor> executor(bonsai_kv_dtype kv, uint32_t n_sequences, int level = -1) const;

  static constexpr uint32_t kContext = 128;
  static constexpr uint32_t kBlockSize = 32;
  static constexpr uint32_t kBlocksPerSequence = kContext / kBlockSize;

 private:
  Rig(std::unique_ptr<TinyModelFile> file, const std::string &backend);

  std::unique_ptr<TinyModelFile> file_;  // nullptr: the file is not this object's
  model::Model model_;
  std::unique_ptr<host::Device> device_;
  std::unique_ptr<host::DeviceModel> uploaded_;
};

// Gives every sequence its blocks, in an order that has nothing to do with positions, and collects batches.
class BatchBuilder {
 public:
  explicit BatchBuilder(uint32_t n_sequences);

  // Appends a token, and asks for its logits if `output`.
  void add(uint32_t sequence, uint32_t position, int32_t token, bool output = true);
  // Runs what was added and starts anew: the logits of the asked tokens, in order.
  std::vector<std::vector<float>> run(host::Executor &executor);

  uint32_t block(uint32_t sequence, uint32_t column) const;
  host::Batch batch() const;

 private:
  uint32_t n_sequences_;
  std::vector<uint32_t> block_table_;
  std::vector<int32_t> tokens_;
  std::vector<uint32_t> positions_, sequences_;
  std::vector<host::Output> outputs_;
};

// For parameterised tests, and for their names.
inline constexpr bonsai_kv_dtype kAllKvTypes[] = {BONSAI_KV_F16, BONSAI_KV_Q8_0, BONSAI_KV_F32};
std::string kv_test_name(bonsai_kv_dtype kv);  // "KvF16"

// A sequence of `n` ids inside the vocabulary, the same for the same seed.
std::vector<int32_t> random_tokens(uint32_t n, uint32_t vocab, uint32_t seed);

// Logits after each token, one token a batch.
std::vector<std::vector<float>> run_alone(host::Executor &executor, const std::vector<int32_t> &tokens);

// The judge's logits after each token.
std::vector<std::vector<double>> reference_logits(const model::Model &model, bonsai_kv_dtype kv,
                                                  const std::vector<int32_t> &tokens);

// |found - expected| / |expected|.
double relative_error(const std::vector<float> &found, const std::vector<double> &expected);

// KL(expected || found) in nats, of the distributions that the logits give.
double divergence(const std::vector<float> &found, const std::vector<double> &expected);

}  // namespace bonsai::test
