#include "plugins/cpu/options.h"

#include <array>
#include <charconv>
#include <string_view>

#include "plugins/common/options.h"
#include "plugins/cpu/threads.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

constexpr bonsai_option_info kThreadsInfo = {
    sizeof(bonsai_option_info), "cpu.threads",
    "threads that compute, 1 to 1024, more than cores allowed (default: every core of the process)"};
constexpr bonsai_option_info kIsaInfo = {sizeof(bonsai_option_info), "cpu.isa",
                                         "instruction set: auto, portable, avx2, avx2-vnni, avx512 or neon (default: "
                                         "auto, the best that the processor has)"};
constexpr std::array<const bonsai_option_info *, 2> kInfos = {&kThreadsInfo, &kIsaInfo};

int parse_threads(std::string_view value) {
  int threads = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), threads);
  if (error != std::errc{} || end != value.data() + value.size() || threads < 1 || threads > kMaxThreads) {
    reject("cpu.threads is '{}', expected a number from 1 to {}", value, kMaxThreads);
  }
  return threads;
}

}  // namespace

std::span<const bonsai_option_info *const> option_infos() { return kInfos; }

Options parse_options(const bonsai_device_config &config) {
  Options options;
  each_option(config, [&](std::string_view key, std::string_view value) {
    if (key == kThreadsInfo.key) {
      options.threads = parse_threads(value);
    } else if (key == kIsaInfo.key) {
      options.isa = value;
    } else {
      refuse("unknown option {}, expected cpu.threads or cpu.isa", key);
    }
  });
  return options;
}

}  // namespace bonsai::cpu
