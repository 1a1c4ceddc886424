#include "plugins/cuda/compile/units.h"

#include "plugins/common/failure.h"

namespace bonsai::cuda {
namespace {

std::vector<Unit> make_units() {
  std::vector<Unit> units;
  units.push_back({.name = "selection",
                   .file = "selection.cu",
                   .defines = {},
                   .hot = {{"gather_rows", 32}, {"select_chunks", 48}, {"select_finish", 64}}});
  return units;
}

}  // namespace

std::span<const Unit> units() {
  static const std::vector<Unit> all = make_units();
  return all;
}

const Unit &find_unit(std::span<const Unit> among, std::string_view name) {
  for (const Unit &unit : among) {
    if (unit.name == name) return unit;
  }
  throw plugin::Failure(BONSAI_INTERNAL, fmt::format("there is no unit of kernels named {}", name));
}

}  // namespace bonsai::cuda
