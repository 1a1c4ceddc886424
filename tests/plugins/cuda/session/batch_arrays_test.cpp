#include "plugins/cuda/batch_arrays.h"

#include <gtest/gtest.h>

#include <vector>

namespace bonsai::cuda {
namespace {

struct Given {
  std::vector<int32_t> tokens = {5, -1, 9};
  std::vector<uint32_t> positions = {0, 7, 1}, sequences = {0, 1, 0};
  std::vector<uint32_t> table = {3, 4, 5, 6, 7, 8};  // (2, 3)

  bonsai_batch batch() const {
    bonsai_batch batch{};
    batch.struct_size = sizeof batch;
    batch.n_tokens = 3;
    batch.tokens = tokens.data();
    batch.positions = positions.data();
    batch.sequences = sequences.data();
    batch.block_table = table.data();
    batch.n_sequences = 2;
    batch.blocks_per_sequence = 3;
    return batch;
  }
};

TEST(BatchArrays, TheShapeStaysWhileATextGrowsALittle) {
  Given given;
  bonsai_batch batch = given.batch();
  const BatchShape shape = BatchShape::of(batch, 100);
  EXPECT_EQ(shape.columns, 4u);
  batch.blocks_per_sequence = 4;
  EXPECT_EQ(BatchShape::of(batch, 100), shape);
  batch.blocks_per_sequence = 5;
  EXPECT_EQ(BatchShape::of(batch, 100).columns, 8u);
  EXPECT_EQ(BatchShape::of(batch, 6).columns, 6u) << "no more than the session has room for";
}

TEST(BatchArrays, HoldTheBatchWhereTheShapeSays) {
  const Given given;
  const bonsai_batch batch = given.batch();
  const BatchShape shape = BatchShape::of(batch, 100);
  std::vector<uint32_t> memory(shape.bytes() / sizeof(uint32_t), 0xFFFFFFFF);
  const BatchArrays arrays = BatchArrays::at(reinterpret_cast<std::byte *>(memory.data()), shape);
  fill(arrays, shape, batch);
  const std::vector<uint32_t> expected = {5, 0xFFFFFFFF, 9, 0, 7, 1, 0, 1, 0, 3, 4, 5, 0xFFFFFFFF, 6, 7, 8, 0xFFFFFFFF};
  EXPECT_EQ(memory, expected);
  EXPECT_EQ(reinterpret_cast<std::byte *>(arrays.block_table), reinterpret_cast<std::byte *>(memory.data() + 9));
}

TEST(BatchArrays, HiddenStatesBringNoTokens) {
  const Given given;
  bonsai_batch batch = given.batch();
  batch.tokens = nullptr;
  const BatchShape shape = BatchShape::of(batch, 100);
  std::vector<uint32_t> memory(shape.bytes() / sizeof(uint32_t), 77);
  fill(BatchArrays::at(reinterpret_cast<std::byte *>(memory.data()), shape), shape, batch);
  EXPECT_EQ(memory[0], 77u);
  EXPECT_EQ(memory[4], 7u);
}

}  // namespace
}  // namespace bonsai::cuda
