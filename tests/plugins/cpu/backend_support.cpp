#include "tests/plugins/cpu/backend_support.h"

#include <dlfcn.h>

#include <cmath>
#include <numeric>
#include <stdexcept>

#include "plugins/cpu/simd/detect.h"
#include "tests/plugins/cpu/emulation.h"

namespace bonsai::test {

const bonsai_backend_api &load_backend(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded: a backend is never unloaded
  if (!library) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<bonsai_backend_entry_fn>(dlsym(library, BONSAI_BACKEND_ENTRY_NAME));
  if (!entry) throw std::runtime_error(path + " does not export " BONSAI_BACKEND_ENTRY_NAME);
  const bonsai_backend_api *api = entry(BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  if (!api) throw std::runtime_error(path + " does not serve this ABI version");
  return *api;
}

bonsai_error empty_error() {
  bonsai_error error{};
  error.struct_size = sizeof error;
  return error;
}

void require_ok(bonsai_status status, const bonsai_error &error) {
  if (status != BONSAI_OK) throw std::runtime_error(error.message);
}

OpenDevice::OpenDevice(const std::string &plugin, const DeviceOptions &options) : api(load_backend(plugin)) {
  std::deque<bonsai_option> given;
  std::vector<const bonsai_option *> pointers;
  for (const auto &[key, value] : options) {
    given.push_back({sizeof(bonsai_option), key.c_str(), value.c_str()});
    pointers.push_back(&given.back());
  }
  bonsai_device_config config{};
  config.struct_size = sizeof config;
  config.n_options = static_cast<uint32_t>(pointers.size());
  config.options = pointers.data();
  bonsai_error error = empty_error();
  require_ok(api.device_open(0, &config, &handle, &error), error);
}

OpenDevice::~OpenDevice() { api.device_close(handle); }

bonsai_device_status OpenDevice::status() const {
  bonsai_device_status status{};
  status.struct_size = sizeof status;
  bonsai_error error = empty_error();
  require_ok(api.device_status(handle, &status, &error), error);
  return status;
}

namespace {

model::Model load(const std::string &path) {
  auto model = model::load_model(path);
  if (!model) throw std::runtime_error(model.error().message);
  return std::move(*model);
}

}  // namespace

LoadedModel::LoadedModel(const TinyModel &options) : file(options), model(load(file.path())) {}

UploadedModel::UploadedModel(OpenDevice &device, const model::Model &model, const UploadOptions &options)
    : device(device), model(model), rope_(model::make_rope_table(model.config, options.positions)) {
  const model::Config &config = model.config;
  const uint32_t n_layers = options.layers ? options.layers : config.layers;
  for (uint32_t i = 0; i < n_layers; ++i) add_layer(model.layers[options.first_layer + i], options);
  for (const bonsai_layer_spec &layer : layers) layer_pointers_.push_back(&layer);

  spec.struct_size = sizeof spec;
  spec.n_layers = n_layers;
  spec.hidden = config.hidden;
  spec.ffn = config.ffn;
  spec.n_heads = config.heads;
  spec.n_kv_heads = config.kv_heads;
  spec.head_dim = config.head_dim;
  spec.rms_eps = config.rms_eps;
  spec.softmax_scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  spec.rope_dim = config.head_dim;
  spec.rope_positions = options.positions;
  spec.rope_cos = rope_.cos.data();
  spec.rope_sin = rope_.sin.data();
  spec.layers = layer_pointers_.data();
  spec.vocab = options.embedding || options.head ? config.vocab : 0;
  const bool shared = model.tied && options.embedding && options.head;
  const bonsai_weight_use both = BONSAI_USE_MATRIX | BONSAI_USE_EMBEDDING;
  if (options.embedding) {
    const auto uses = shared ? both : bonsai_weight_use{BONSAI_USE_EMBEDDING};
    spec.embedding = slice(upload({model.token_embd}, uses, options.borrowed), 0, config.vocab);
  }
  if (options.head) {
    spec.head =
        shared ? spec.embedding : slice(upload({model.head}, BONSAI_USE_MATRIX, options.borrowed), 0, config.vocab);
    spec.output_norm = model.output_norm.data();
  }
}

UploadedModel::~UploadedModel() {
  for (bonsai_weight *weight : weights_) device.api.weight_free(device.handle, weight);
}

bonsai_weight *UploadedModel::upload(const std::vector<const gguf::Tensor *> &tensors, bonsai_weight_use uses,
                                     bool borrowed) {
  std::deque<bonsai_weight_part> parts;
  std::vector<const bonsai_weight_part *> pointers;
  for (const gguf::Tensor *tensor : tensors) {
    parts.push_back({.struct_size = sizeof(bonsai_weight_part),
                     .dtype = static_cast<bonsai_dtype>(tensor->format),
                     .rows = tensor->rows(),
                     .data = tensor->data.data(),
                     .data_bytes = tensor->data.size()});
    pointers.push_back(&parts.back());
  }
  bonsai_weight_desc desc{};
  desc.struct_size = sizeof desc;
  desc.flags = borrowed ? uint32_t{BONSAI_WEIGHT_BORROWED} : 0;
  desc.uses = uses;
  desc.n_parts = static_cast<uint32_t>(parts.size());
  desc.columns = tensors[0]->columns();
  desc.parts = pointers.data();
  bonsai_error error = empty_error();
  bonsai_weight *weight = nullptr;
  require_ok(device.api.weight_upload(device.handle, &desc, &weight, nullptr, &error), error);
  weights_.push_back(weight);
  return weight;
}

const bonsai_weight_slice *UploadedModel::slice(const bonsai_weight *weight, uint64_t first_row, uint64_t rows) {
  slices.push_back({sizeof(bonsai_weight_slice), 0, weight, first_row, rows});
  return &slices.back();
}

void UploadedModel::add_layer(const model::LayerWeights &weights, const UploadOptions &options) {
  const uint64_t q = weights.attn_q->rows(), kv = weights.attn_k->rows(), ffn = weights.ffn_gate->rows();
  const auto alone = [&](const gguf::Tensor *tensor) {
    return slice(upload({tensor}, BONSAI_USE_MATRIX, options.borrowed), 0, tensor->rows());
  };
  bonsai_layer_spec &layer = layers.emplace_back();
  layer.struct_size = sizeof layer;
  layer.kind = BONSAI_LAYER_DECODER;
  if (options.stacked) {
    bonsai_weight *qkv = upload({weights.attn_q, weights.attn_k, weights.attn_v}, BONSAI_USE_MATRIX, options.borrowed);
    layer.q = slice(qkv, 0, q);
    layer.k = slice(qkv, q, kv);
    layer.v = slice(qkv, q + kv, kv);
    bonsai_weight *gate_up = upload({weights.ffn_gate, weights.ffn_up}, BONSAI_USE_MATRIX, options.borrowed);
    layer.gate = slice(gate_up, 0, ffn);
    layer.up = slice(gate_up, ffn, ffn);
  } else {
    layer.q = alone(weights.attn_q);
    layer.k = alone(weights.attn_k);
    layer.v = alone(weights.attn_v);
    layer.gate = alone(weights.ffn_gate);
    layer.up = alone(weights.ffn_up);
  }
  layer.o = alone(weights.attn_output);
  layer.down = alone(weights.ffn_down);
  layer.attn_norm = weights.attn_norm.data();
  layer.ffn_norm = weights.ffn_norm.data();
  layer.q_norm = weights.q_norm.data();
  layer.k_norm = weights.k_norm.data();
}

bonsai_session_config small_config() {
  bonsai_session_config config{};
  config.struct_size = sizeof config;
  config.kv_dtype = BONSAI_KV_F16;
  config.block_size = 16;
  config.n_blocks = 32;
  config.max_tokens = 160;
  config.max_sequences = 4;
  config.max_blocks_per_sequence = 16;
  config.max_outputs = 64;
  config.max_k = 64;
  return config;
}

OpenSession::OpenSession(UploadedModel &model, const bonsai_session_config &config)
    : model(model), api(model.device.api) {
  bonsai_error error = empty_error();
  require_ok(api.session_create(model.device.handle, &model.spec, &config, &handle, &error), error);
}

OpenSession::~OpenSession() { api.session_destroy(handle); }

void OpenSession::forward(TestBatch &batch, const TestOutputs &outputs) {
  const bonsai_batch view = batch.view();
  bonsai_error error = empty_error();
  uint64_t ticket = 0;
  require_ok(api.forward_submit(handle, &view, outputs.data(), outputs.size(), &ticket, &error), error);
  require_ok(api.forward_wait(handle, ticket, &error), error);
}

std::vector<float> OpenSession::logits(const std::vector<int32_t> &tokens, uint32_t start,
                                       const std::vector<uint32_t> &blocks) {
  TestBatch batch;
  batch.block_table = {blocks};
  for (size_t i = 0; i < tokens.size(); ++i) batch.add(tokens[i], start + static_cast<uint32_t>(i));
  TestOutputs outputs(model.spec.vocab, model.spec.hidden);
  outputs.logits(static_cast<uint32_t>(tokens.size() - 1));
  forward(batch, outputs);
  return outputs[0].logits;
}

std::vector<Tier> testable_tiers() {
  std::vector<Tier> tiers = {{kPlugin, "portable", "portable"}};
#if defined(__x86_64__)
  if (!cpu::cpu_has_avx2()) return tiers;
  tiers.push_back({kPlugin, "avx2", "avx2"});
  const auto add = [&tiers](bool is_native, const std::string &name) {
    if (cpu::is_to_be_emulated(is_native)) {
      const std::string isa = name == "avx512" ? "auto" : name;
      tiers.push_back({BONSAI_CPU_EMULATED_PLUGIN, isa, name + " (emulated)", true});
    }
    if (is_native) tiers.push_back({kPlugin, name, name});
  };
  add(cpu::cpu_has_avx512(), "avx512");
  add(cpu::cpu_has_avx512_amx(), "avx512-amx");
  add(cpu::cpu_has_avx512(), "avx512-panels");
  add(cpu::cpu_has_avx512_bmi2(), "avx512-panels32");
  add(cpu::cpu_has_avx2_vnni(), "avx2-vnni");
#endif
  return tiers;
}

bool takes_floats(quant::Format format) {
  using quant::Format;
  switch (format) {
    case Format::kF32:
    case Format::kF16:
    case Format::kBF16:
    case Format::kF8_E4M3:
    case Format::kF8_E5M2:
      return true;
    default:
      return false;
  }
}

std::vector<quant::Format> matrix_formats(const std::string &plugin) {
  const OpenDevice device(plugin);
  std::vector<quant::Format> formats;
  for (const quant::FormatTraits &traits : quant::formats()) {
    bonsai_weight_use uses = 0;
    bonsai_error error = empty_error();
    const auto dtype = static_cast<bonsai_dtype>(traits.format);
    require_ok(device.api.dtype_support(device.handle, dtype, &uses, &error), error);
    if (uses & BONSAI_USE_MATRIX) formats.push_back(traits.format);
  }
  return formats;
}

TinyModel tiny_model_of(quant::Format format) {
  TinyModel options = {.format = format};
  if (quant::traits(format).block_weights > options.hidden) {
    options.hidden = 256;
    options.head_dim = options.hidden / options.heads;
  }
  return options;
}

std::vector<int32_t> some_tokens(uint32_t n, uint32_t vocab, uint32_t seed) {
  std::vector<int32_t> tokens(n);
  uint32_t state = seed * 2654435761u + 12345;
  for (int32_t &token : tokens) {
    state = state * 1664525u + 1013904223u;
    token = static_cast<int32_t>((state >> 8) % vocab);
  }
  return tokens;
}

std::vector<uint32_t> blocks_in_order(uint32_t n) {
  std::vector<uint32_t> blocks(n);
  std::iota(blocks.begin(), blocks.end(), 0u);
  return blocks;
}

std::vector<uint32_t> shuffled_blocks(uint32_t n) {
  std::vector<uint32_t> blocks(n);
  for (uint32_t i = 0; i < n; ++i) blocks[i] = (i * 7 + 3) % 32;  // 7 and 32 have no common divisor
  return blocks;
}

}  // namespace bonsai::test
