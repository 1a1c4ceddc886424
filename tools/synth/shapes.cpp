#include "tools/synth/shapes.h"

#include <algorithm>
#include <array>

namespace bonsai::synth {
namespace {

// From the models' published config.json files; "tiny" is ours, for tests.
constexpr std::array kShapes = {
    //     name   hidden    ffn layers heads kv  dim   vocab context     base  tied
    Shape{"tiny", 256, 768, 2, 4, 2, 64, 512, 1024, 10000.0, true},
    Shape{"0.6b", 1024, 3072, 28, 16, 8, 128, 151936, 40960, 1000000.0, true},
    Shape{"1.7b", 2048, 6144, 28, 16, 8, 128, 151936, 40960, 1000000.0, true},
    Shape{"4b", 2560, 9728, 36, 32, 8, 128, 151936, 40960, 1000000.0, true},
    Shape{"8b", 4096, 12288, 36, 32, 8, 128, 151936, 40960, 1000000.0, false},
};

}  // namespace

std::span<const Shape> shapes() { return kShapes; }

const Shape *find_shape(std::string_view name) {
  const auto found = std::find_if(kShapes.begin(), kShapes.end(), [&](const Shape &s) { return s.name == name; });
  return found == kShapes.end() ? nullptr : &*found;
}

}  // namespace bonsai::synth
