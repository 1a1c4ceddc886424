// The CPU backend as BACKEND_NAME, whose KV blocks have BLOCK_SIZE tokens and no other size: the build sets it to sizes
// that the header allows and no other backend here has. A large block is several of the CPU's, one behind the other. In
// the place of a small one is a larger of the CPU's: a sequence fills its first blocks and leaves the others as they
// are.
#include <bonsai/backend.h>

#include <algorithm>
#include <vector>

#include "tests/conformance/cpu_entry.h"

namespace bonsai::test {
namespace {

constexpr uint32_t kBlockSize = BLOCK_SIZE;
constexpr uint32_t kSmallest = 16, kLargest = 128;  // of the CPU's
constexpr uint32_t kFactor = std::max(kBlockSize / kLargest, 1u);
static_assert(kBlockSize < kSmallest || kBlockSize % kLargest == 0);

const bonsai_backend_api &cpu() {
  static const bonsai_backend_api &api = *bonsai_cpu_entry(BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  return api;
}

bonsai_status device_info(uint32_t index, bonsai_device_info *info, bonsai_error *error) {
  const bonsai_status status = cpu().device_info(index, info, error);
  if (status != BONSAI_OK) return status;
  info->block_sizes = &kBlockSize;
  info->n_block_sizes = 1;
  return status;
}

// The CPU's blocks of these; what is no block stays none.
std::vector<uint32_t> expanded(const uint32_t *blocks, uint64_t n) {
  constexpr uint32_t kNone = 0xFFFFFFFF;
  std::vector<uint32_t> expanded;
  for (uint64_t i = 0; blocks && i < n; ++i) {
    for (uint32_t j = 0; j < kFactor; ++j) {
      expanded.push_back(blocks[i] < kNone / kFactor - 1 ? blocks[i] * kFactor + j : kNone);
    }
  }
  return expanded;
}

// A struct as the CPU is given it; what it would refuse stays as it is.
template <class T>
class Changed {
 public:
  template <class Change>
  Changed(const T *given, Change change) : given_(given) {
    if (!given || given->struct_size < sizeof *given) return;
    changed_ = *given;
    change(changed_);
    given_ = &changed_;
  }
  Changed(const Changed &) = delete;
  Changed &operator=(const Changed &) = delete;
  const T *get() const { return given_; }

 private:
  const T *given_;
  T changed_;
};

void change_config(bonsai_session_config &config) {
  if (config.block_size == kBlockSize) {
    config.block_size = std::clamp(kBlockSize, kSmallest, kLargest);
  } else {
    config.block_size = 0;
  }
  config.n_blocks *= kFactor;
  config.max_blocks_per_sequence *= kFactor;
}

bonsai_status session_memory(bonsai_device *device, const bonsai_model_spec *model, const bonsai_session_config *config,
                             bonsai_session_memory *memory, bonsai_error *error) {
  return cpu().session_memory(device, model, Changed(config, change_config).get(), memory, error);
}

bonsai_status session_create(bonsai_device *device, const bonsai_model_spec *model, const bonsai_session_config *config,
                             bonsai_session **session, bonsai_error *error) {
  return cpu().session_create(device, model, Changed(config, change_config).get(), session, error);
}

// A batch with the CPU's block table.
class ChangedBatch {
 public:
  explicit ChangedBatch(const bonsai_batch *batch) : changed_(batch, [this](bonsai_batch &b) { expand(b); }) {}
  const bonsai_batch *get() const { return changed_.get(); }

 private:
  static bool reaches_beyond(const bonsai_batch &batch) {
    constexpr uint32_t kMostTokens = 512;
    const bool is_readable = batch.positions && batch.n_tokens <= kMostTokens;
    const auto is_beyond = [&](uint32_t position) { return position / kBlockSize >= batch.blocks_per_sequence; };
    return is_readable && std::any_of(batch.positions, batch.positions + batch.n_tokens, is_beyond);
  }

  void expand(bonsai_batch &batch) {
    constexpr uint32_t kMostSequences = 8, kMostBlocks = 1024;  // of the suite: what is more, is not there to be read
    if (!batch.block_table || batch.n_sequences > kMostSequences || batch.blocks_per_sequence > kMostBlocks) return;
    if (reaches_beyond(batch)) return void(batch.block_table = nullptr);  // the CPU's larger blocks would have room
    table_ = expanded(batch.block_table, uint64_t{batch.n_sequences} * batch.blocks_per_sequence);
    batch.block_table = table_.data();
    batch.blocks_per_sequence *= kFactor;
  }

  std::vector<uint32_t> table_;
  Changed<bonsai_batch> changed_;
};

bonsai_status layer_encode(bonsai_session *session, uint32_t layer, const bonsai_batch *batch, const float *in,
                           float *out, bonsai_error *error) {
  return cpu().layer_encode(session, layer, ChangedBatch(batch).get(), in, out, error);
}

bonsai_status forward_submit(bonsai_session *session, const bonsai_batch *batch, const bonsai_output *const *outputs,
                             uint32_t n_outputs, uint64_t *ticket, bonsai_error *error) {
  return cpu().forward_submit(session, ChangedBatch(batch).get(), outputs, n_outputs, ticket, error);
}

const uint32_t *data_or_null(const uint32_t *given, const std::vector<uint32_t> &blocks) {
  return given ? blocks.data() : nullptr;
}

bonsai_status kv_copy(bonsai_session *session, const uint32_t *sources, const uint32_t *destinations, uint32_t n,
                      bonsai_error *error) {
  const std::vector<uint32_t> from = expanded(sources, n), to = expanded(destinations, n);
  return cpu().kv_copy(session, data_or_null(sources, from), data_or_null(destinations, to), n * kFactor, error);
}

bonsai_status kv_export(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                        void *data, uint64_t bytes, bonsai_error *error) {
  const std::vector<uint32_t> all = expanded(blocks, n_blocks);
  if (n_tokens > n_blocks * kBlockSize) n_blocks = 0;  // the CPU's smallest would have room
  return cpu().kv_export(session, data_or_null(blocks, all), n_blocks * kFactor, n_tokens, data, bytes, error);
}

bonsai_status kv_import(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                        const void *data, uint64_t bytes, bonsai_error *error) {
  const std::vector<uint32_t> all = expanded(blocks, n_blocks);
  if (n_tokens > n_blocks * kBlockSize) n_blocks = 0;
  return cpu().kv_import(session, data_or_null(blocks, all), n_blocks * kFactor, n_tokens, data, bytes, error);
}

bonsai_backend_api make_table() {
  bonsai_backend_api table = cpu();
  table.name = BACKEND_NAME;
  table.description = "the CPU backend with KV blocks of another size";
  table.device_info = device_info;
  table.session_memory = session_memory;
  table.session_create = session_create;
  table.layer_encode = layer_encode;
  table.forward_submit = forward_submit;
  table.kv_copy = kv_copy;
  table.kv_export = kv_export;
  table.kv_import = kv_import;
  return table;
}

}  // namespace
}  // namespace bonsai::test

extern "C" const bonsai_backend_api *bonsai_backend_entry(uint32_t host_major, uint32_t) {
  static const bonsai_backend_api table = bonsai::test::make_table();
  return host_major == BONSAI_ABI_MAJOR ? &table : nullptr;
}
