#include "tests/host/runtime/rig.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "core/reference/reference.h"

namespace bonsai::test {

std::filesystem::path plugin(const std::string &name) {
  const std::filesystem::path build = BONSAI_BINARY_DIR, file = "libbonsai_" + name + ".so";
  const std::filesystem::path real = build / "lib" / "bonsai" / file;
  return exists(real) ? real : build / "tests" / "backends" / file;
}

Rig::Rig(const TinyModel &description, const std::string &backend)
    : Rig(std::make_unique<TinyModelFile>(description), backend) {}

Rig::Rig(std::unique_ptr<TinyModelFile> file, const std::string &backend) : Rig(file->path(), backend) {
  file_ = std::move(file);
}

Rig::Rig(const std::string &path, const std::string &backend) : model_(value_or_throw(model::load_model(path))) {
  host::BackendRequest request;
  request.backend = plugin(backend).string();
  request.strict = true;
  device_ = value_or_throw(host::open_device(request, nullptr));
  uploaded_ = value_or_throw(host::DeviceModel::upload(model_, *device_, nullptr));
}

std::unique_ptr<host::Executor> Rig::executor(bonsai_kv_dtype kv, uint32_t n_sequences, int level) const {
  host::ExecutorConfig config;
  config.context = kContext;
  config.block_size = kBlockSize;
  config.n_blocks = n_sequences * kBlocksPerSequence;
  config.kv_dtype = kv;
  config.max_tokens = 64;
  config.max_sequences = n_sequences;
  config.max_blocks_per_sequence = kBlocksPerSequence;
  config.max_outputs = 64;
  return value_or_throw(host::make_executor(*uploaded_, config, level));
}

BatchBuilder::BatchBuilder(uint32_t n_sequences)
    : n_sequences_(n_sequences), block_table_(n_sequences * Rig::kBlocksPerSequence) {
  std::iota(block_table_.begin(), block_table_.end(), 0u);
  std::shuffle(block_table_.begin(), block_table_.end(), std::mt19937(7));
}

void BatchBuilder::add(uint32_t sequence, uint32_t position, int32_t token, bool output) {
  if (output) outputs_.push_back({static_cast<uint32_t>(tokens_.size()), {}});
  tokens_.push_back(token);
  positions_.push_back(position);
  sequences_.push_back(sequence);
}

host::Batch BatchBuilder::batch() const {
  return {tokens_, positions_, sequences_, block_table_, n_sequences_, Rig::kBlocksPerSequence};
}

std::vector<std::vector<float>> BatchBuilder::run(host::Executor &executor) {
  const auto done = executor.forward(batch(), outputs_);
  if (!done) throw std::runtime_error(done.error().message);
  std::vector<std::vector<float>> logits;
  for (host::Output &output : outputs_) logits.push_back(std::move(output.logits));
  tokens_.clear();
  positions_.clear();
  sequences_.clear();
  outputs_.clear();
  return logits;
}

uint32_t BatchBuilder::block(uint32_t sequence, uint32_t column) const {
  return block_table_[sequence * Rig::kBlocksPerSequence + column];
}

std::string kv_test_name(bonsai_kv_dtype kv) {
  return kv == BONSAI_KV_F16 ? "KvF16" : kv == BONSAI_KV_Q8_0 ? "KvQ8_0" : "KvF32";
}

std::vector<int32_t> random_tokens(uint32_t n, uint32_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t &token : tokens) token = static_cast<int32_t>(random() % vocab);
  return tokens;
}

std::vector<std::vector<float>> run_alone(host::Executor &executor, const std::vector<int32_t> &tokens) {
  std::vector<std::vector<float>> logits;
  BatchBuilder builder(1);
  for (uint32_t position = 0; position < tokens.size(); ++position) {
    builder.add(0, position, tokens[position]);
    logits.push_back(builder.run(executor).front());
  }
  return logits;
}

std::vector<std::vector<double>> reference_logits(const model::Model &model, bonsai_kv_dtype kv,
                                                  const std::vector<int32_t> &tokens) {
  using reference::KvType;
  reference::Evaluator evaluator(model, kv == BONSAI_KV_F32   ? KvType::kF32
                                        : kv == BONSAI_KV_F16 ? KvType::kF16
                                                              : KvType::kQ8_0);
  return value_or_throw(evaluator.steps(tokens));
}

double relative_error(const std::vector<float> &found, const std::vector<double> &expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (found.at(i) - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

namespace {

template <class T>
double log_sum_exp(const std::vector<T> &logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const T logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

}  // namespace

double divergence(const std::vector<float> &found, const std::vector<double> &expected) {
  const double found_norm = log_sum_exp(found), expected_norm = log_sum_exp(expected);
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double log_p = expected[i] - expected_norm, log_q = found.at(i) - found_norm;
    sum += std::exp(log_p) * (log_p - log_q);
  }
  return sum;
}

}  // namespace bonsai::test
