#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/quant/format.h"
#include "plugins/cpu/kernels/kernels.h"
#include "tools/bench/activations.h"
#include "tools/bench/cases.h"
#include "tools/bench/memory.h"

namespace bonsai::kernel_bench {
namespace {

constexpr uint64_t kHidden = 2048, kFeedForward = 6144, kVocabulary = 151936;  // Bonsai-1.7B

// A kernel that reads `floats` consecutive floats in one call.
struct RowKernel {
  std::string name;   // "quantize/Q1_0_G128"
  std::string shape;  // "2048"
  uint64_t floats;
  std::function<void(const cpu::KernelTable &, const float *x, float *y)> call;  // y has room for as many results
};

// Every layout of activations once, under the name of the first format that has it.
std::vector<RowKernel> quantize_kernels() {
  std::vector<cpu::ActivationLayout> layouts;
  std::vector<RowKernel> kernels;
  for (const quant::FormatTraits &traits : quant::formats()) {
    const cpu::ActivationLayout layout = cpu::activation_layout(traits.format);
    if (layout.block == 0 || std::find(layouts.begin(), layouts.end(), layout) != layouts.end()) continue;
    layouts.push_back(layout);
    for (const uint64_t columns : {kHidden, kFeedForward}) {
      const auto tables =
          std::make_shared<std::vector<int16_t>>(columns / cpu::kActivationGroup * cpu::kMostLookupElements);
      const auto call = [=](const cpu::KernelTable &table, const float *x, float *y) {
        cpu::QuantizeArgs args = whole_rows(layout, x, 1, columns, reinterpret_cast<std::byte *>(y));
        if (table.table_elements(layout.tables) > 0) args.tables = tables->data();
        table.quantize(args);
      };
      kernels.push_back({fmt::format("quantize/{}", traits.name), fmt::format("{}/n:1", columns), columns, call});
    }
  }
  return kernels;
}

std::vector<RowKernel> all_row_kernels() {
  std::vector<RowKernel> kernels = quantize_kernels();
  const auto weight = std::make_shared<std::vector<float>>(kHidden, 1.0f);
  kernels.push_back({"rms_norm", fmt::format("{}", kHidden), kHidden, [=](const auto &table, const float *x, float *y) {
                       table.rms_norm({.x = x, .weight = weight->data(), .n = kHidden, .eps = 1e-6f, .y = y});
                     }});
  kernels.push_back(
      {"swiglu", fmt::format("{}", kFeedForward), 2 * kFeedForward, [](const auto &table, const float *x, float *y) {
         table.swiglu({.gate = x, .up = x + kFeedForward, .n = kFeedForward, .y = y});
       }});
  kernels.push_back({"max_value", fmt::format("{}", kVocabulary), kVocabulary,
                     [](const auto &table, const float *x, float *y) { *y = table.max_value(x, kVocabulary); }});
  kernels.push_back(
      {"sum_exp", fmt::format("{}", kVocabulary), kVocabulary, [](const auto &table, const float *x, float *y) {
         *y = static_cast<float>(table.sum_exp(x, kVocabulary, 1.0f));
       }});
  return kernels;
}

struct Case {
  RowKernel kernel;
  const cpu::KernelTable *table;
  Place place;

  std::string name() const {
    return fmt::format("{}/{}/{}/{}", kernel.name, table->name, kernel.shape, name_of(place));
  }
};

void run(benchmark::State &state, const Case &a_case, const Limits &limits) {
  const uint64_t floats = a_case.kernel.floats;
  const uint64_t rows = pieces(a_case.place, floats * sizeof(float), limits.memory_bytes);
  const Memory x(rows * floats * sizeof(float)), y(2 * floats * sizeof(float));
  fill_random(x.as<float>(), rows * floats, 4);
  Round round(rows);
  const Stopwatch stopwatch;
  for (auto _ : state) {
    a_case.kernel.call(*a_case.table, x.as<float>() + round.next() * floats, y.as<float>());
    benchmark::ClobberMemory();
  }
  Counters counters(state, limits, stopwatch);
  counters.items("elements/s", floats);
  counters.bytes(floats * sizeof(float));
}

}  // namespace

void add_row_cases(const std::shared_ptr<const Limits> &limits) {
  for (const RowKernel &kernel : all_row_kernels()) {
    for (const cpu::KernelTable *table : cpu::runnable_kernels()) {
      for (const Place place : kPlaces) {
        const Case a_case = {kernel, table, place};
        benchmark::RegisterBenchmark(a_case.name().c_str(),
                                     [=](benchmark::State &state) { run(state, a_case, *limits); });
      }
    }
  }
}

}  // namespace bonsai::kernel_bench
