// Norms, activations, attention, and what selection needs.
#include <algorithm>
#include <cstring>
#include <limits>

#include "core/quant/format.h"
#include "tests/plugins/cpu/digest/digest.h"

namespace bonsai::cpu::digest {
namespace {

constexpr size_t kLengths[] = {1, 7, 15, 16, 17, 33, 100, 2077};

// Random values, one in four special.
std::vector<float> mixed_values(size_t n, Random &random) {
  std::vector<float> values = random.values(n, 3);
  for (float &value : values) {
    if (random.bits() % 4 == 0) value = kSpecial[random.bits() % std::size(kSpecial)];
  }
  return values;
}

Results run_rms_norm(const KernelTable &kernels, quant::Format) {
  Results results;
  Random random(1);
  for (const size_t n : kLengths) {
    for (const int exponent : {0, -70, -140, 60, 80}) {
      const std::vector<float> x = random.values(n, exponent), weight = random.values(n, 0);
      std::vector<float> y(n);
      kernels.rms_norm({.x = x.data(), .weight = weight.data(), .n = n, .eps = 1e-6f, .y = y.data()});
      for (const float value : y) results.add(value);
    }
    std::vector<float> x = mixed_values(n, random);
    kernels.rms_norm({.x = x.data(), .weight = x.data(), .n = n, .eps = 0.0f, .y = x.data()});
    for (const float value : x) results.add(value);
  }
  return results;
}

Results run_swiglu(const KernelTable &kernels, quant::Format) {
  Results results;
  Random random(2);
  for (const size_t n : kLengths) {
    for (int round = 0; round < 4; ++round) {
      const std::vector<float> gate = mixed_values(n, random);
      std::vector<float> up = random.values(n, round < 2 ? 0 : -120);
      kernels.swiglu({.gate = gate.data(), .up = up.data(), .n = n, .y = up.data()});
      for (const float value : up) results.add_any_nan(value);
    }
  }
  return results;
}

Results run_rotate(const KernelTable &kernels, quant::Format) {
  Results results;
  Random random(5);
  for (const size_t pairs : kLengths) {
    for (const int exponent : {0, -127, 124}) {
      std::vector<float> x = random.values(2 * pairs, exponent);
      if (exponent == 0) x = mixed_values(2 * pairs, random);
      const std::vector<float> cos = random.values(pairs, 0), sin = random.values(pairs, 0);
      kernels.rotate({.x = x.data(), .cos = cos.data(), .sin = sin.data(), .pairs = pairs});
      for (const float value : x) results.add_any_nan(value);
    }
  }
  return results;
}

Results run_add_rows(const KernelTable &kernels, quant::Format) {
  Results results;
  Random random(6);
  for (const size_t n : kLengths) {
    for (const int exponent : {0, -127, 124}) {
      const std::vector<float> x = mixed_values(n, random);
      std::vector<float> y = random.values(n, exponent);
      kernels.add_rows({.x = x.data(), .n = n, .y = y.data()});
      for (const float value : y) results.add_any_nan(value);
    }
  }
  return results;
}

Results run_to_half(const KernelTable &kernels, quant::Format) {
  Results results;
  std::vector<float> x;
  // Every half, what lies half way to the next one, and that one's neighbours.
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const auto bits = std::bit_cast<uint32_t>(quant::half_to_float(static_cast<uint16_t>(half)));
    for (const uint32_t more : {0u, 0xFFFu, 0x1000u, 0x1001u}) x.push_back(std::bit_cast<float>(bits + more));
  }
  for (uint64_t bits = 0; bits < 1ull << 32; bits += 65521)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  x.push_back(1.0f);
  std::vector<uint16_t> halves(x.size());
  kernels.to_half({.x = x.data(), .n = x.size(), .y = halves.data()});
  for (const uint16_t half : halves) results.add(uint32_t{(half & 0x7FFFu) > 0x7C00u ? 0x7E00u : half});
  return results;
}

// Positions of one chunk, their keys and values in one KV dtype.
struct Cache {
  std::vector<std::vector<std::byte>> rows;
  std::vector<const std::byte *> keys, values;
};

std::vector<std::byte> make_row(bonsai_kv_dtype dtype, uint32_t vectors, Random &random) {
  std::vector<std::byte> row(1 + 64 * vectors + 64);
  std::byte *to = row.data() + 1;
  const auto put = [&](auto value) {
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  };
  const bool special = random.bits() % 16 == 0;
  for (uint32_t i = 0; i < 16 * vectors; ++i) {
    const float value = special && i == 3 ? kSpecial[random.bits() % 24] : random.value(-1);
    if (dtype == BONSAI_KV_F32) put(value);
    if (dtype == BONSAI_KV_F16) put(quant::float_to_half(value));
    if (dtype == BONSAI_KV_Q8_0) put(static_cast<int8_t>(random.bits() % 255 - 127));
  }
  if (dtype == BONSAI_KV_Q8_0) {
    for (uint32_t i = 0; i < vectors; i += 2) put(random.value(-8));
  }
  return row;
}

Cache make_cache(bonsai_kv_dtype dtype, uint32_t n, uint32_t vectors, Random &random) {
  Cache cache;
  for (uint32_t i = 0; i < 2 * n; ++i) cache.rows.push_back(make_row(dtype, vectors, random));
  for (uint32_t i = 0; i < n; ++i) {
    cache.keys.push_back(cache.rows[2 * i].data() + 1);
    cache.values.push_back(cache.rows[2 * i + 1].data() + 1);
  }
  return cache;
}

// Some partial results, folded and finished.
template <bonsai_kv_dtype kDtype>
Results run_attention(const KernelTable &kernels, quant::Format) {
  Results results;
  Random random(3);
  for (const uint32_t vectors : {1u, 4u, 5u, 8u}) {
    const uint32_t width = kPartialHeader + 16 * vectors;
    for (const uint32_t n_queries : {1u, 2u, 3u, kAttentionQueries}) {
      std::vector<float> state(width, 0.0f);
      state[0] = -std::numeric_limits<float>::infinity();
      for (const uint32_t n : {1u, 5u, 16u, 33u, kAttentionChunk}) {
        const Cache cache = make_cache(kDtype, n, vectors, random);
        std::vector<std::vector<float>> queries, partials(n_queries, std::vector<float>(width));
        std::vector<const float *> query_pointers;
        std::vector<float *> partial_pointers;
        for (uint32_t i = 0; i < n_queries; ++i) queries.push_back(random.values(16 * vectors, 2));
        for (const auto &query : queries) query_pointers.push_back(query.data());
        for (auto &partial : partials) partial_pointers.push_back(partial.data());
        kernels.attend({.dtype = kDtype,
                        .n = n,
                        .n_queries = n_queries,
                        .vectors = vectors,
                        .softmax_scale = 0.125f,
                        .keys = cache.keys.data(),
                        .values = cache.values.data(),
                        .queries = query_pointers.data(),
                        .partials = partial_pointers.data(),
                        .next_n = n / 2,
                        .next_keys = cache.keys.data(),
                        .next_values = cache.values.data()});
        for (const auto &partial : partials) {
          for (const float value : partial) results.add_any_nan(value);
        }
        kernels.fold({.state = state.data(), .partial = partials.back().data(), .vectors = vectors});
        for (const float value : state) results.add_any_nan(value);
      }
      for (const uint32_t n : {16 * vectors, 16 * vectors - 5}) {
        std::vector<float> y(n);
        kernels.finish({.state = state.data(), .y = y.data(), .n = n});
        for (const float value : y) results.add_any_nan(value);
      }
    }
  }
  return results;
}

// Whole chunks, for as many queries as lie in slabs or do not fill them.
template <bonsai_kv_dtype kDtype>
Results run_tiles(const KernelTable &kernels, quant::Format) {
  Results results;
  Random random(7);
  for (const uint32_t vectors : {2u, 5u, 8u}) {
    const uint32_t slab = 16 * vectors * kQuerySlab, width = kPartialHeader + 16 * vectors;
    std::vector<float> scratch(tile_scratch(vectors));
    for (const uint32_t n_queries : {13u, 32u, 37u}) {
      const std::vector<float> queries = random.values(2 * slab, 0);
      std::vector<float> states(n_queries * width, 0.0f);
      for (const bool is_first : {true, false}) {
        const Cache cache = make_cache(kDtype, kAttentionChunk, vectors, random);
        kernels.attend_tile({.dtype = kDtype,
                             .n_queries = n_queries,
                             .vectors = vectors,
                             .softmax_scale = 0.125f,
                             .is_first = is_first,
                             .keys = cache.keys.data(),
                             .values = cache.values.data(),
                             .queries = queries.data(),
                             .states = states.data(),
                             .scratch = scratch.data(),
                             .next_n = kAttentionChunk,
                             .next_keys = cache.keys.data(),
                             .next_values = cache.values.data()});
        for (const float value : states) results.add_any_nan(value);
      }
    }
  }
  return results;
}

Results run_selection(const KernelTable &kernels, quant::Format) {
  Results results;
  Random random(4);
  for (const size_t n : kLengths) {
    for (const int exponent : {0, 4, -130}) {
      const std::vector<float> x = random.values(n, exponent);
      const float largest = kernels.max_value(x.data(), n);
      results.add(largest);
      const auto sum = std::bit_cast<uint64_t>(kernels.sum_exp(x.data(), n, largest));
      results.add(static_cast<uint32_t>(sum));
      results.add(static_cast<uint32_t>(sum >> 32));
    }
    results.add(kernels.max_value(mixed_values(n, random).data(), n));
    const std::vector<float> nan(n, std::numeric_limits<float>::quiet_NaN()), zeros(n, -0.0f);
    results.add(kernels.max_value(nan.data(), n));
    results.add(kernels.max_value(zeros.data(), n));
  }
  return results;
}

}  // namespace

std::vector<Section> row_sections() {
  return {{"rms_norm", run_rms_norm},
          {"swiglu", run_swiglu},
          {"rotate", run_rotate},
          {"add_rows", run_add_rows},
          {"to_half", run_to_half},
          {"attention, F32", run_attention<BONSAI_KV_F32>},
          {"attention, F16", run_attention<BONSAI_KV_F16>},
          {"attention, Q8_0", run_attention<BONSAI_KV_Q8_0>},
          {"attention of tiles, F32", run_tiles<BONSAI_KV_F32>},
          {"attention of tiles, F16", run_tiles<BONSAI_KV_F16>},
          {"attention of tiles, Q8_0", run_tiles<BONSAI_KV_Q8_0>},
          {"max_value and sum_exp", run_selection}};
}

}  // namespace bonsai::cpu::digest
