#include <fmt/format.h>

#include <array>
#include <memory>
#include <vector>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kv_cache.h"
#include "tools/bench/cases.h"
#include "tools/bench/memory.h"

namespace bonsai::kernel_bench {
namespace {

constexpr uint32_t kHeadDim = 128;
constexpr uint32_t kVectors = kHeadDim / 16;
constexpr uint32_t kChunk = cpu::kAttentionChunk;
constexpr uint32_t kMostQueries = 4 * cpu::kQuerySlab;

struct Type {
  const char *name;
  bonsai_kv_dtype dtype;
};
constexpr Type kTypes[] = {{"F16", BONSAI_KV_F16}, {"Q8_0", BONSAI_KV_Q8_0}, {"F32", BONSAI_KV_F32}};

struct Case {
  const cpu::KernelTable *kernels;
  Type type;
  uint32_t n_queries;
  Place place;

  bool is_tile() const { return n_queries > cpu::kAttentionQueries; }
  std::string name() const {
    return fmt::format("{}/{}/{}/{}x{}/queries:{}/{}", is_tile() ? "attend_tile" : "attend", type.name, kernels->name,
                       kChunk, kHeadDim, n_queries, name_of(place));
  }
};

// Keys and values of one head: a block of the cache is a chunk.
cpu::KvShape cache_of(const Case &a_case, uint32_t chunks) {
  return {.dtype = a_case.type.dtype,
          .layers = 1,
          .kv_heads = 1,
          .head_dim = kHeadDim,
          .block_size = kChunk,
          .blocks = chunks};
}

void fill(const cpu::KvCache &cache, const cpu::KernelTable &kernels) {
  std::array<float, kHeadDim> row;
  for (uint32_t chunk = 0; chunk < cache.shape().blocks; ++chunk) {
    for (uint32_t slot = 0; slot < kChunk; ++slot) {
      fill_random(row.data(), row.size(), uint64_t{chunk} * kChunk + slot);
      cache.store(kernels, cache.key(0, chunk, 0, slot), row.data());
      cache.store(kernels, cache.value(0, chunk, 0, slot), row.data());
    }
  }
}

struct Rows {
  std::array<const std::byte *, kChunk> keys, values;

  Rows(const cpu::KvCache &cache, uint32_t chunk) {
    for (uint32_t slot = 0; slot < kChunk; ++slot) {
      keys[slot] = cache.key(0, chunk, 0, slot);
      values[slot] = cache.value(0, chunk, 0, slot);
    }
  }
};

// The arguments of a call, but for its keys and values.
class Queries {
 public:
  explicit Queries(const Case &a_case)
      : a_case_(a_case),
        queries_(kMostQueries * kHeadDim),
        partials_(kMostQueries * kPartial),
        scratch_(cpu::tile_scratch(kVectors)) {
    fill_random(queries_.data(), queries_.size(), 5);
    for (uint32_t i = 0; i < cpu::kAttentionQueries; ++i) {
      query_rows_[i] = queries_.data() + i * kHeadDim;
      partial_rows_[i] = partials_.data() + i * kPartial;
    }
  }

  cpu::AttendArgs args(const Rows &rows, const Rows &next) const {
    return {.dtype = a_case_.type.dtype,
            .n = kChunk,
            .n_queries = a_case_.n_queries,
            .vectors = kVectors,
            .softmax_scale = 0.088f,
            .keys = rows.keys.data(),
            .values = rows.values.data(),
            .queries = query_rows_.data(),
            .partials = partial_rows_.data(),
            .next_n = kChunk,
            .next_keys = next.keys.data(),
            .next_values = next.values.data(),
            .prefetch = cpu::best_prefetch()};
  }

  cpu::AttendTileArgs tile_args(const Rows &rows, const Rows &next) {
    return {.dtype = a_case_.type.dtype,
            .n_queries = a_case_.n_queries,
            .vectors = kVectors,
            .softmax_scale = 0.088f,
            .is_first = false,
            .keys = rows.keys.data(),
            .values = rows.values.data(),
            .queries = queries_.data(),
            .states = partials_.data(),
            .scratch = scratch_.data(),
            .next_n = kChunk,
            .next_keys = next.keys.data(),
            .next_values = next.values.data(),
            .prefetch = cpu::best_prefetch()};
  }

 private:
  static constexpr uint32_t kPartial = cpu::kPartialHeader + 16 * kVectors;

  const Case &a_case_;
  std::vector<float> queries_, partials_, scratch_;
  std::array<const float *, cpu::kAttentionQueries> query_rows_;
  std::array<float *, cpu::kAttentionQueries> partial_rows_;
};

void run(benchmark::State &state, const Case &a_case, const Limits &limits) {
  const uint64_t chunk_bytes = cpu::KvCache::bytes(cache_of(a_case, 1));
  const auto chunks = static_cast<uint32_t>(pieces(a_case.place, chunk_bytes, limits.memory_bytes));
  const cpu::KvCache cache(cache_of(a_case, chunks));
  fill(cache, *a_case.kernels);
  Queries queries(a_case);
  Round round(chunks);
  const Stopwatch stopwatch;
  Rows rows(cache, 0);
  for (auto _ : state) {
    const Rows next(cache, static_cast<uint32_t>(round.next()));
    if (a_case.is_tile())
      a_case.kernels->attend_tile(queries.tile_args(rows, next));
    else
      a_case.kernels->attend(queries.args(rows, next));
    rows = next;
    benchmark::ClobberMemory();
  }
  Counters counters(state, limits, stopwatch);
  counters.items("positions/s", kChunk);
  counters.bytes(chunk_bytes);
}

}  // namespace

void add_attention_cases(const std::shared_ptr<const Limits> &limits) {
  for (const Type &type : kTypes) {
    for (const cpu::KernelTable *kernels : cpu::runnable_kernels()) {
      for (const uint32_t n_queries :
           {uint32_t{1}, cpu::kAttentionQueries, cpu::kQuerySlab / 2, cpu::kQuerySlab, kMostQueries}) {
        for (const Place place : kPlaces) {
          const Case a_case = {kernels, type, n_queries, place};
          benchmark::RegisterBenchmark(a_case.name().c_str(),
                                       [=](benchmark::State &state) { run(state, a_case, *limits); });
        }
      }
    }
  }
}

}  // namespace bonsai::kernel_bench
