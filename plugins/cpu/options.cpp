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
constexpr bonsai_option_info kIsaInfo = {
    sizeof(bonsai_option_info), "cpu.isa",
    "instruction set: auto or portable; on x86-64 avx2, avx2-vnni, avx512, avx512-panels, "
    "avx512-panels32 or avx512-amx, on AArch64 neon (default: auto, the best that the processor has)"};
constexpr bonsai_option_info kPrefetchInfo = {
    sizeof(bonsai_option_info), "cpu.prefetch",
    "how weights are fetched ahead of their use: into the cache l1 or l2; l2-late, less far ahead; l2-two, in two "
    "streams where sums are looked up; auto, as is known to be faster on the processor (default: auto)"};
constexpr bonsai_option_info kMappedInfo = {
    sizeof(bonsai_option_info), "cpu.mapped",
    "F32, F16 and BF16 matrices are read where the file is mapped: on; off: copied into large pages, which are read "
    "faster; auto: copied while a quarter of the memory stays free (default: auto)"};
constexpr std::array<const bonsai_option_info *, 4> kInfos = {&kThreadsInfo, &kIsaInfo, &kPrefetchInfo, &kMappedInfo};

int parse_threads(std::string_view value) {
  int threads = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), threads);
  if (error != std::errc{} || end != value.data() + value.size() || threads < 1 || threads > kMaxThreads) {
    reject("cpu.threads is '{}', expected a number from 1 to {}", value, kMaxThreads);
  }
  return threads;
}

std::optional<Prefetch> parse_prefetch(std::string_view value) {
  if (value == "auto") return std::nullopt;
  if (value == "l1") return Prefetch::kFirstLevel;
  if (value == "l2") return Prefetch::kSecondLevel;
  if (value == "l2-late") return Prefetch::kSecondLevelLate;
  if (value == "l2-two") return Prefetch::kSecondLevelTwoStreams;
  reject("cpu.prefetch is '{}', expected auto, l1, l2, l2-late or l2-two", value);
}

Mapped parse_mapped(std::string_view value) {
  if (value == "auto") return Mapped::kAuto;
  if (value == "on") return Mapped::kOn;
  if (value == "off") return Mapped::kOff;
  reject("cpu.mapped is '{}', expected auto, on or off", value);
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
    } else if (key == kPrefetchInfo.key) {
      options.prefetch = parse_prefetch(value);
    } else if (key == kMappedInfo.key) {
      options.mapped = parse_mapped(value);
    } else {
      refuse("unknown option {}, expected cpu.threads, cpu.isa, cpu.prefetch or cpu.mapped", key);
    }
  });
  return options;
}

}  // namespace bonsai::cpu
