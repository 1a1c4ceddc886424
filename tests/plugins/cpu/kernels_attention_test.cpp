// attend_tile() is attend() and fold() for many queries at once, in the same bits, in every tier.
#include <array>
#include <utility>

#include "tests/plugins/cpu/kernels_support.h"

namespace bonsai::cpu {
namespace {

struct TileCase {
  bonsai_kv_dtype dtype;
  uint32_t vectors, n_queries;
};

class AttendTile : public ::testing::TestWithParam<const KernelTable *> {
 protected:
  // Keys or values of a chunk, as KvCache stores them. Moved only: the rows are where the bytes are.
  struct Chunk {
    Chunk() = default;
    Chunk(Chunk &&) = default;
    Chunk &operator=(Chunk &&) = default;

    std::vector<std::byte> bytes;
    std::array<const std::byte *, kAttentionChunk> rows;
  };

  float value() { return std::normal_distribution<float>(0.0f, 1.0f)(random_); }

  // A few numbers are none, or none that anything can be added to.
  float mixed_value() {
    constexpr float kSpecial[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                  std::numeric_limits<float>::quiet_NaN(), -0.0f, 6e4f};
    return has_special_ && random_() % 512 == 0 ? kSpecial[random_() % std::size(kSpecial)] : value();
  }

  Chunk make_chunk(const TileCase &a_case) {
    const uint32_t n = 16 * a_case.vectors;
    Chunk chunk;
    std::vector<size_t> places;
    const auto put = [&](auto number) {
      const auto *from = reinterpret_cast<const std::byte *>(&number);
      chunk.bytes.insert(chunk.bytes.end(), from, from + sizeof number);
    };
    for (uint32_t position = 0; position < kAttentionChunk; ++position) {
      places.push_back(chunk.bytes.size());
      for (uint32_t i = 0; i < n; ++i) {
        if (a_case.dtype == BONSAI_KV_F32) put(mixed_value());
        if (a_case.dtype == BONSAI_KV_F16) put(quant::float_to_half(mixed_value()));
        if (a_case.dtype == BONSAI_KV_Q8_0) put(static_cast<int8_t>(random_() % 255 - 127));
      }
      for (uint32_t i = 0; a_case.dtype == BONSAI_KV_Q8_0 && i < n; i += 32) put(std::abs(mixed_value()) / 127.0f);
    }
    for (uint32_t position = 0; position < kAttentionChunk; ++position)
      chunk.rows[position] = chunk.bytes.data() + places[position];
    return chunk;
  }

  void expect_the_same(const TileCase &a_case);

  std::mt19937 random_{7};
  bool has_special_ = false;
};

bool are_same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

void AttendTile::expect_the_same(const TileCase &a_case) {
  const KernelTable &kernels = *GetParam();
  const auto [dtype, vectors, n_queries] = a_case;
  const uint32_t width = 16 * vectors, stride = kPartialHeader + width;
  std::vector<float> queries(n_queries * width);
  for (float &x : queries) x = mixed_value();
  const uint32_t slabs = (n_queries + kQuerySlab - 1) / kQuerySlab;
  std::vector<float> arranged(slabs * width * kQuerySlab);
  for (uint32_t query = 0; query < n_queries; ++query) {
    float *slab = arranged.data() + query / kQuerySlab * width * kQuerySlab;
    for (uint32_t i = 0; i < width; ++i) slab[i * kQuerySlab + query % kQuerySlab] = queries[query * width + i];
  }
  const auto scratch = aligned_bytes(tile_scratch(vectors) * sizeof(float));
  std::vector<float> states(n_queries * stride), expected(n_queries * stride), partial(stride);
  Chunk keys = make_chunk(a_case), values = make_chunk(a_case);
  for (int chunk = 0; chunk < 3; ++chunk) {
    Chunk next_keys = make_chunk(a_case), next_values = make_chunk(a_case);
    for (uint32_t query = 0; query < n_queries; ++query) {
      const float *row = queries.data() + query * width;
      float *state = expected.data() + query * stride, *to = chunk == 0 ? state : partial.data();
      kernels.attend({.dtype = dtype,
                      .n = kAttentionChunk,
                      .n_queries = 1,
                      .vectors = vectors,
                      .softmax_scale = 0.09f,
                      .keys = keys.rows.data(),
                      .values = values.rows.data(),
                      .queries = &row,
                      .partials = &to,
                      .next_n = 0,
                      .next_keys = nullptr,
                      .next_values = nullptr});
      if (chunk > 0) kernels.fold({.state = state, .partial = partial.data(), .vectors = vectors});
    }
    kernels.attend_tile({.dtype = dtype,
                         .n_queries = n_queries,
                         .vectors = vectors,
                         .softmax_scale = 0.09f,
                         .is_first = chunk == 0,
                         .keys = keys.rows.data(),
                         .values = values.rows.data(),
                         .queries = arranged.data(),
                         .states = states.data(),
                         .scratch = reinterpret_cast<float *>(scratch.get()),
                         .next_n = chunk == 2 ? 0 : kAttentionChunk - 7,
                         .next_keys = next_keys.rows.data(),
                         .next_values = next_values.rows.data()});
    keys = std::move(next_keys);
    values = std::move(next_values);
    for (uint32_t query = 0; query < n_queries; ++query) {
      for (uint32_t i = 0; i < stride; i = i == 1 ? kPartialHeader : i + 1) {
        ASSERT_TRUE(are_same(states[query * stride + i], expected[query * stride + i]))
            << "query " << query << " of " << n_queries << ", " << vectors << " vectors, chunk " << chunk << ", " << i
            << ": " << states[query * stride + i] << ", expected " << expected[query * stride + i];
      }
    }
  }
}

TEST_P(AttendTile, IsAttendAndFoldForManyQueries) {
  for (const bonsai_kv_dtype dtype : {BONSAI_KV_F32, BONSAI_KV_F16, BONSAI_KV_Q8_0})
    for (const uint32_t vectors : {2u, 8u, 10u})
      for (const uint32_t n_queries : {1u, 16u, 39u})
        ASSERT_NO_FATAL_FAILURE(expect_the_same({dtype, vectors, n_queries}));
}

TEST_P(AttendTile, KnowsNumbersThatAreNone) {
  has_special_ = true;
  for (const bonsai_kv_dtype dtype : {BONSAI_KV_F32, BONSAI_KV_F16, BONSAI_KV_Q8_0})
    for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(expect_the_same({dtype, 4, 40}));
}

// Queries that share what is read of keys and values, however these are asked for, and heads of widths that kernels are
// compiled for and of others.
TEST_P(AttendTile, GivesEachQueryWhatItGetsByItself) {
  const KernelTable &kernels = *GetParam();
  for (const bonsai_kv_dtype dtype : {BONSAI_KV_F32, BONSAI_KV_F16, BONSAI_KV_Q8_0})
    for (const uint32_t vectors : {2u, 4u, 6u, 8u, 10u})
      for (const uint32_t n : {1u, 13u, kAttentionChunk}) {
        const Chunk keys = make_chunk({dtype, vectors, 1}), values = make_chunk({dtype, vectors, 1});
        const uint32_t width = 16 * vectors, stride = kPartialHeader + width;
        std::vector<float> queries(kAttentionQueries * width), expected(kAttentionQueries * stride);
        for (float &q : queries) q = value();
        std::array<const float *, kAttentionQueries> query_rows;
        for (uint32_t i = 0; i < kAttentionQueries; ++i) query_rows[i] = queries.data() + i * width;
        const auto attend = [&](uint32_t first, uint32_t n_queries, Prefetch how, std::vector<float> &results) {
          std::array<float *, kAttentionQueries> partials;
          for (uint32_t i = 0; i < n_queries; ++i) partials[i] = results.data() + (first + i) * stride;
          kernels.attend({.dtype = dtype,
                          .n = n,
                          .n_queries = n_queries,
                          .vectors = vectors,
                          .softmax_scale = 0.09f,
                          .keys = keys.rows.data(),
                          .values = values.rows.data(),
                          .queries = query_rows.data() + first,
                          .partials = partials.data(),
                          .next_n = kAttentionChunk - 7,
                          .next_keys = values.rows.data(),
                          .next_values = keys.rows.data(),
                          .prefetch = how});
        };
        for (uint32_t i = 0; i < kAttentionQueries; ++i) attend(i, 1, Prefetch::kSecondLevel, expected);
        for (uint32_t n_queries = 1; n_queries <= kAttentionQueries; ++n_queries)
          for (const Prefetch how : {Prefetch::kSecondLevel, Prefetch::kFirstLevel}) {
            std::vector<float> results(kAttentionQueries * stride);
            attend(0, n_queries, how, results);
            EXPECT_EQ(std::memcmp(results.data(), expected.data(), n_queries * stride * sizeof(float)), 0)
                << n_queries << " queries, " << n << " positions, " << vectors << " vectors";
          }
      }
}

INSTANTIATE_TEST_SUITE_P(Tiers, AttendTile, ::testing::ValuesIn(testable_kernels()),
                         [](const auto &info) { return name_of(info.param->name) + std::to_string(info.index); });

}  // namespace
}  // namespace bonsai::cpu
