// Blocks are copied whole, and what is exported is the ABI's canonical layout, whatever the pool's own is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/plugins/cuda/emulator/emulator.h"
#include "tests/plugins/cuda/kv/pool.h"

namespace bonsai::cuda {
namespace {

using emulation::Order;

constexpr uint32_t kLayers = 2, kBlocks = 9;

struct MovesShape {
  uint32_t dtype, head_dim, kv_heads, block_size;

  KvPool pool() const {
    return {.data = nullptr,
            .dtype = dtype,
            .head_dim = head_dim,
            .kv_heads = kv_heads,
            .block_size = block_size,
            .n_blocks = kBlocks};
  }
  uint32_t row_bytes() const { return kv_row_bytes(dtype, head_dim); }
};

// Calls visit(plane, slot, row) for each row of the canonical layout (backend.h, kv_export).
template <class Visit>
void each_row(const MovesShape &shape, const std::vector<uint32_t> &blocks, uint32_t n_tokens, const Visit &visit) {
  size_t row = 0;
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    for (uint32_t is_value : {0, 1}) {
      for (uint32_t token = 0; token < n_tokens; ++token) {
        for (uint32_t head = 0; head < shape.kv_heads; ++head) {
          visit(KvPlane{layer, blocks[token / shape.block_size], head, is_value}, token % shape.block_size, row++);
        }
      }
    }
  }
}

// Any bytes will do: they are only moved.
std::vector<uint8_t> random_rows(const MovesShape &shape, uint32_t n_tokens) {
  std::mt19937 random(n_tokens);
  std::vector<uint8_t> rows(size_t{kLayers} * 2 * n_tokens * shape.kv_heads * shape.row_bytes());
  for (uint8_t &byte : rows) byte = static_cast<uint8_t>(random());
  return rows;
}

// `piece` rows at a time.
void move(const char *kernel, const Pool &pool, const std::vector<uint32_t> &blocks, uint32_t n_tokens,
          std::vector<uint8_t> &rows, uint32_t piece, const Order &order = {}) {
  const uint32_t row_bytes = kv_row_bytes(pool.shape().dtype, pool.shape().head_dim);
  const auto n_rows = static_cast<uint32_t>(rows.size() / row_bytes);
  for (uint32_t first = 0; first < n_rows; first += piece) {
    const MoveRowsArguments arguments = {.pool = pool.shape(),
                                         .blocks = blocks.data(),
                                         .rows = rows.data() + size_t{first} * row_bytes,
                                         .first_row = first,
                                         .n_rows = std::min(piece, n_rows - first),
                                         .n_tokens = n_tokens};
    constexpr uint32_t kRows = kKvThreads / 32;
    emulation::launch({"kv.cu", kernel, order}, {(arguments.n_rows + kRows - 1) / kRows}, kKvThreads, 0, &arguments);
  }
}

class EveryPool : public testing::TestWithParam<MovesShape> {};

INSTANTIATE_TEST_SUITE_P(Kv, EveryPool,
                         testing::Values(MovesShape{kKvF16, 128, 2, 32}, MovesShape{kKvQ8_0, 128, 2, 32},
                                         MovesShape{kKvF32, 128, 1, 16}, MovesShape{kKvF16, 10, 3, 64},
                                         MovesShape{kKvQ8_0, 160, 1, 128}, MovesShape{kKvF32, 90, 2, 16},
                                         MovesShape{kKvQ8_0, 32, 5, 16}, MovesShape{kKvF16, 256, 1, 16}),
                         [](const auto &parameter) {
                           const MovesShape &shape = parameter.param;
                           return fmt::format("{}_{}x{}_block{}", dtype_name(shape.dtype), shape.kv_heads,
                                              shape.head_dim, shape.block_size);
                         });

TEST_P(EveryPool, ExportsTheCanonicalLayout) {
  const MovesShape &shape = GetParam();
  Pool pool(shape.pool(), kLayers);
  const std::vector<uint32_t> blocks = {5, 0, 8};
  const uint32_t n_tokens = 2 * shape.block_size + 3;
  const std::vector<uint8_t> rows = random_rows(shape, n_tokens);
  each_row(shape, blocks, n_tokens, [&](const KvPlane &plane, uint32_t slot, size_t row) {
    pool.write(plane, slot, std::span(rows).subspan(row * shape.row_bytes(), shape.row_bytes()));
  });
  for (const Order &order : emulation::kOrders) {
    std::vector<uint8_t> exported(rows.size());
    move("export_rows", pool, blocks, n_tokens, exported, 100'000, order);
    EXPECT_EQ(exported, rows);
  }
}

TEST_P(EveryPool, ImportsWhatWasExported) {
  const MovesShape &shape = GetParam();
  Pool pool(shape.pool(), kLayers);
  const std::vector<uint32_t> blocks = {2, 7};
  const uint32_t n_tokens = shape.block_size + 5;
  std::vector<uint8_t> rows = random_rows(shape, n_tokens);
  move("import_rows", pool, blocks, n_tokens, rows, 13);
  each_row(shape, blocks, n_tokens, [&](const KvPlane &plane, uint32_t slot, size_t row) {
    const std::vector<uint8_t> read = pool.read(plane, slot);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), rows.begin() + row * shape.row_bytes())) << row;
  });
  std::vector<uint8_t> exported(rows.size());
  move("export_rows", pool, blocks, n_tokens, exported, 7);
  EXPECT_EQ(exported, rows);
}

// The same bytes as storing them one by one: the filling of heads is written, other slots and blocks are not.
TEST_P(EveryPool, ImportsNothingElse) {
  const MovesShape &shape = GetParam();
  const std::vector<uint32_t> blocks = {1, 3};
  const uint32_t n_tokens = shape.block_size + 5;
  std::vector<uint8_t> rows = random_rows(shape, n_tokens);
  Pool expected(shape.pool(), kLayers);
  each_row(shape, blocks, n_tokens, [&](const KvPlane &plane, uint32_t slot, size_t row) {
    expected.write(plane, slot, std::span(rows).subspan(row * shape.row_bytes(), shape.row_bytes()));
  });
  for (const Order &order : emulation::kOrders) {
    Pool pool(shape.pool(), kLayers);
    move("import_rows", pool, blocks, n_tokens, rows, 100'000, order);
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (uint32_t block = 0; block < kBlocks; ++block) {
        const std::span<const uint8_t> bytes = pool.block(layer, block), same = expected.block(layer, block);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), same.begin())) << layer << ", " << block;
      }
    }
  }
}

TEST_P(EveryPool, CopiesBlocksInAllLayers) {
  const MovesShape &shape = GetParam();
  Pool pool(shape.pool(), kLayers);
  std::vector<uint32_t> all(kBlocks);
  std::iota(all.begin(), all.end(), 0);
  const uint32_t n_tokens = kBlocks * shape.block_size;
  std::vector<uint8_t> rows = random_rows(shape, n_tokens);
  move("import_rows", pool, all, n_tokens, rows, 100'000);
  std::vector<std::vector<uint8_t>> before;
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const std::span<const uint8_t> bytes = pool.block(layer, block);
      before.emplace_back(bytes.begin(), bytes.end());
    }
  }
  const std::vector<uint32_t> sources = {4, 0, 4}, destinations = {1, 8, 6};
  const CopyBlocksArguments arguments = {
      .pool = pool.shape(), .sources = sources.data(), .destinations = destinations.data()};
  emulation::launch({"kv.cu", "copy_blocks"}, {3, kLayers}, kKvThreads, 0, &arguments);
  const std::vector<uint32_t> from = {0, 4, 2, 3, 4, 5, 4, 7, 0};  // what each block holds now
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    for (uint32_t block = 0; block < kBlocks; ++block) {
      const std::span<const uint8_t> bytes = pool.block(layer, block);
      const std::vector<uint8_t> &same = before[layer * kBlocks + from[block]];
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), same.begin())) << layer << ", " << block;
    }
  }
}

}  // namespace
}  // namespace bonsai::cuda
