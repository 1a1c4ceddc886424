// bonsai-bench-kernels: every CPU kernel by itself, held against what one thread of this machine can do.
#include <benchmark/benchmark.h>

#include <charconv>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/base/standard_streams.h"
#include "tools/bench/cases.h"

using namespace bonsai::kernel_bench;

namespace {

constexpr int kFailure = 1, kUsage = 2;
constexpr uint64_t kLeastMemory = 4096, kMostMemory = uint64_t{1} << 40;

void print_help() {
  std::cout << "Usage: bonsai-bench-kernels [--memory-bytes=N] [--benchmark_filter=REGEX] [OPTIONS]\n"
               "\n"
               "Times every kernel of the CPU backend in every tier that this machine runs, on one thread.\n"
               "\n"
               "  --memory-bytes=N                  what cases out of cache go round, and streaming reads\n"
               "                                    (4 times the last-level cache, and at least 128 MiB)\n"
               "  --benchmark_filter=REGEX          only the cases whose name matches\n"
               "  --benchmark_list_tests            only list them\n"
               "  --benchmark_min_time=SECONDS      of each case (0.5)\n"
               "  --benchmark_repetitions=N         and their mean, median and deviation\n"
               "  --benchmark_format=json           instead of a table\n"
               "  --benchmark_out=FILE              also into a file, as JSON\n"
               "  --benchmark_counters_tabular=true counters as columns\n";
}

// Our own option, taken out of the command line. Throws std::invalid_argument.
std::optional<uint64_t> take_memory_bytes(std::vector<char *> &arguments) {
  constexpr std::string_view kOption = "--memory-bytes=";
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument.substr(0, kOption.size()) != kOption) continue;
    const std::string_view text = argument.substr(kOption.size());
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < kLeastMemory || value > kMostMemory)
      throw std::invalid_argument("--memory-bytes: expected a whole number from 4096 to 1099511627776, found '" +
                                  std::string(text) + "'");
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
    return value;
  }
  return std::nullopt;
}

// Listing needs no measurement.
bool only_lists(const std::vector<char *> &arguments) {
  for (const std::string_view argument : arguments) {
    if (argument == "--benchmark_list_tests" || argument == "--benchmark_list_tests=true") return true;
  }
  return false;
}

int run(std::vector<char *> arguments) {
  const auto memory_bytes = take_memory_bytes(arguments);
  const bool lists = only_lists(arguments);
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data(), print_help);
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return kUsage;
  const auto limits = std::make_shared<Limits>();
  add_matmul_cases(limits);
  add_row_cases(limits);
  add_attention_cases(limits);
  if (!lists) {
    *limits = measure_limits(memory_bytes.value_or(default_memory_bytes()));
    add_context(*limits);
  }
  const size_t matched = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return matched == 0 ? kFailure : 0;
}

}  // namespace

int main(int argc, char **argv) {
  try {
    return run({argv, argv + argc});
  } catch (const std::invalid_argument &error) {
    bonsai::print_to_stderr("bonsai-bench-kernels: {}\n", error.what());
    return kUsage;
  } catch (const std::exception &error) {
    bonsai::print_to_stderr("bonsai-bench-kernels: {}\n", error.what());
    return kFailure;
  }
}
