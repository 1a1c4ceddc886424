// Copying KV blocks, and moving a sequence's cache between backends.
#include <algorithm>
#include <vector>

#include "plugins/cuda/kernels/kv_arguments.h"
#include "plugins/cuda/session.h"

namespace bonsai::cuda {
namespace {

bool holds(const std::vector<uint32_t> &blocks, uint32_t block) {
  return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
}

}  // namespace

// The pairs of one launch are copied in no order, so none may read or write what another writes.
void Session::kv_copy(const uint32_t *sources, const uint32_t *destinations, uint32_t n) {
  check_block_ids(sources, n, pool_.n_blocks, "sources");
  check_block_ids(destinations, n, pool_.n_blocks, "destinations");
  const CurrentContext current(device_.context());
  std::vector<uint32_t> from, to;
  for (uint32_t i = 0; i < n; ++i) {
    if (sources[i] == destinations[i]) continue;
    if (holds(to, sources[i]) || holds(to, destinations[i]) || holds(from, destinations[i])) {
      copy_blocks(from, to);
      from.clear();
      to.clear();
    }
    from.push_back(sources[i]);
    to.push_back(destinations[i]);
  }
  copy_blocks(from, to);
}

// Precondition: no block of `to` is there twice or in `from`, so that there are at most n_blocks of each.
void Session::copy_blocks(const std::vector<uint32_t> &from, const std::vector<uint32_t> &to) {
  if (from.empty()) return;
  const uint64_t bytes = from.size() * sizeof(uint32_t), destinations = layout_.block_lists + bytes;
  const CopyBlocksArguments arguments = {.pool = pool_,
                                         .sources = scratch_.as<uint32_t>(layout_.block_lists),
                                         .destinations = scratch_.as<uint32_t>(destinations)};
  // The lists are the caller's, who changes them next.
  run_to_end(device_.stream(), [&] {
    device_.stream().upload(scratch(layout_.block_lists), from.data(), bytes);
    device_.stream().upload(scratch(destinations), to.data(), bytes);
    device_.launch("kv", "copy_blocks",
                   {.grid = {static_cast<unsigned>(from.size()), shape_.model.layers, 1}, .threads = kKvThreads},
                   arguments);
  });
}

// Moves rows of the canonical layout through scratch, as many at a time as it holds. `before` and `after` the kernel of
// each piece get its place on the device, its offset in the layout and its bytes.
template <class Before, class After>
void Session::move_rows(const KvRange &range, const char *kernel, Before &&before, After &&after) {
  const uint64_t row_bytes = kv_row_bytes(pool_.dtype, pool_.head_dim);
  const uint64_t rows = range.bytes / row_bytes;
  if (rows == 0) return;
  const uint32_t used = (range.n_tokens + pool_.block_size - 1) / pool_.block_size;
  if (used > 2 * uint64_t{pool_.n_blocks}) {
    reject("n_tokens is {}, which takes {} blocks, and the pool has {}", range.n_tokens, used, pool_.n_blocks);
  }
  device_.stream().upload(scratch(layout_.block_lists), range.blocks, used * sizeof(uint32_t));
  const uint64_t room = layout_.partials - layout_.qkv, piece = room / row_bytes;
  for (uint64_t first = 0; first < rows; first += piece) {
    const uint64_t n = std::min(piece, rows - first);
    const MoveRowsArguments arguments = {.pool = pool_,
                                         .blocks = scratch_.as<uint32_t>(layout_.block_lists),
                                         .rows = scratch_.as<uint8_t>(layout_.qkv),
                                         .first_row = first,
                                         .n_rows = static_cast<uint32_t>(n),
                                         .n_tokens = range.n_tokens};
    constexpr uint64_t kRows = kKvThreads / 32;
    before(scratch(layout_.qkv), first * row_bytes, n * row_bytes);
    device_.launch("kv", kernel,
                   {.grid = {static_cast<unsigned>((n + kRows - 1) / kRows), 1, 1}, .threads = kKvThreads}, arguments);
    after(scratch(layout_.qkv), first * row_bytes, n * row_bytes);
  }
}

void Session::kv_export(const KvRange &range, void *data) {
  check_kv_range(shape_.exported_pool(), range, data);
  const CurrentContext current(device_.context());
  run_to_end(device_.stream(), [&] {
    move_rows(
        range, "export_rows", [](std::byte *, uint64_t, uint64_t) {},
        [&](std::byte *rows, uint64_t offset, uint64_t bytes) {
          device_.stream().download(static_cast<std::byte *>(data) + offset, rows, bytes);
        });
  });
}

void Session::kv_import(const KvRange &range, const void *data) {
  check_kv_range(shape_.exported_pool(), range, data);
  const CurrentContext current(device_.context());
  run_to_end(device_.stream(), [&] {
    move_rows(
        range, "import_rows",
        [&](std::byte *rows, uint64_t offset, uint64_t bytes) {
          device_.stream().upload(rows, static_cast<const std::byte *>(data) + offset, bytes);
        },
        [](std::byte *, uint64_t, uint64_t) {});
  });
}

}  // namespace bonsai::cuda
