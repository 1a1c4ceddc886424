#include <bonsai/sampling.h>

#include <array>

namespace bonsai {
namespace {

struct Preset {
  std::string_view name;
  float temperature;
  uint32_t top_k;
  float top_p;
};

constexpr std::array kPresets = {
    Preset{"greedy", 0.0f, 0, 1.0f},
    Preset{"balanced", 0.7f, 40, 0.9f},
    Preset{"creative", 1.0f, 100, 0.95f},
    Preset{"code", 0.2f, 10, 0.8f},
};

}  // namespace

std::optional<SamplingOptions> sampling_preset(std::string_view name) {
  for (const Preset &preset : kPresets) {
    if (preset.name != name) continue;
    SamplingOptions options;
    options.temperature = preset.temperature;
    options.top_k = preset.top_k;
    options.top_p = preset.top_p;
    return options;
  }
  return std::nullopt;
}

}  // namespace bonsai
