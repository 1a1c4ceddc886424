#include "plugins/cuda/options.h"

#include <array>
#include <string_view>

#include "plugins/common/options.h"

namespace bonsai::cuda {

using namespace plugin;

namespace {

constexpr bonsai_option_info kCacheInfo = {
    sizeof(bonsai_option_info), "cuda.kernel_cache",
    "where compiled kernels are kept: a directory, or off (default: $XDG_CACHE_HOME/bonsai/kernels, or "
    "~/.cache/bonsai/kernels)"};
constexpr bonsai_option_info kGraphsInfo = {sizeof(bonsai_option_info), "cuda.graphs",
                                            "on or off: replay decode steps as CUDA graphs (default: on)"};
constexpr bonsai_option_info kFusionInfo = {
    sizeof(bonsai_option_info), "cuda.fusion",
    "off; attention: have attention do RoPE, and pack what it finds for the next product, where it can; or swiglu: "
    "have a token's product of gate and up do SwiGLU, too, of 1-bit weights and where it can. The bytes are the same "
    "(default: swiglu)"};
constexpr bonsai_option_info kOverlapInfo = {sizeof(bonsai_option_info), "cuda.overlap",
                                             "on or off: have kernels start, and fetch weights, while the ones ahead "
                                             "of them end, from compute capability 9.0 on "
                                             "(default: on)"};
constexpr bonsai_option_info kWaitInfo = {
    sizeof(bonsai_option_info), "cuda.wait",
    "spin or block: how a thread waits for a submitted pass, with a core kept busy "
    "or asleep, which wakes it later (default: spin)"};
constexpr bonsai_option_info kWarmInfo = {
    sizeof(bonsai_option_info), "cuda.warm",
    "on or off: have every kernel compiled when the device is opened, not when it is first needed (default: off)"};
constexpr std::array<const bonsai_option_info *, 6> kInfos = {&kCacheInfo,   &kGraphsInfo, &kFusionInfo,
                                                              &kOverlapInfo, &kWaitInfo,   &kWarmInfo};

bool parse_switch(std::string_view key, std::string_view value) {
  if (value != "on" && value != "off") reject("{} is '{}', expected on or off", key, value);
  return value == "on";
}

Fusion parse_fusion(std::string_view key, std::string_view value) {
  if (value == "attention") return Fusion::kAttention;
  if (value == "swiglu") return Fusion::kSwiglu;
  if (value != "off") reject("{} is '{}', expected off, attention or swiglu", key, value);
  return Fusion::kOff;
}

Event::Waiting parse_waiting(std::string_view key, std::string_view value) {
  if (value != "spin" && value != "block") reject("{} is '{}', expected spin or block", key, value);
  return value == "spin" ? Event::Waiting::kAsTheDriver : Event::Waiting::kAsleep;
}

std::string parse_directory(std::string_view value) {
  if (value != "off" && !value.starts_with('/')) {
    reject("cuda.kernel_cache is '{}', expected off or a directory's absolute path", value);
  }
  return std::string(value);
}

}  // namespace

std::span<const bonsai_option_info *const> option_infos() { return kInfos; }

Options parse_options(const bonsai_device_config &config) {
  Options options;
  each_option(config, [&](std::string_view key, std::string_view value) {
    if (key == kCacheInfo.key) {
      options.kernel_cache = parse_directory(value);
    } else if (key == kGraphsInfo.key) {
      options.graphs = parse_switch(key, value);
    } else if (key == kFusionInfo.key) {
      options.fusion = parse_fusion(key, value);
    } else if (key == kOverlapInfo.key) {
      options.overlap = parse_switch(key, value);
    } else if (key == kWaitInfo.key) {
      options.waiting = parse_waiting(key, value);
    } else if (key == kWarmInfo.key) {
      options.warm = parse_switch(key, value);
    } else {
      refuse(
          "unknown option {}, expected cuda.kernel_cache, cuda.graphs, cuda.fusion, cuda.overlap, cuda.wait or "
          "cuda.warm",
          key);
    }
  });
  return options;
}

}  // namespace bonsai::cuda
