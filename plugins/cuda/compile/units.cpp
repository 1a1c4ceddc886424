#include "plugins/cuda/compile/units.h"

#include "plugins/common/failure.h"

namespace bonsai::cuda {
namespace {

// Attention is compiled for each KV dtype and each size that heads are filled up to (kv_layout.cuh).
void add_attention(std::vector<Unit> &units) {
  units.push_back({.name = "rope", .file = "rope.cu", .defines = {}, .hot = {{"prepare_heads", 64}}});
  units.push_back({.name = "kv", .file = "kv.cu", .defines = {}, .hot = {}});
  for (const char *dtype : {"F16", "Q8_0", "F32"}) {
    for (const char *head_dim : {"32", "64", "96", "128", "192", "256"}) {
      units.push_back({.name = fmt::format("attention.{}.{}", dtype, head_dim),
                       .file = "attention.cu",
                       .defines = {fmt::format("BONSAI_FORMAT={}_{}", dtype, head_dim)},
                       .hot = {}});
    }
  }
}

std::vector<Unit> make_units() {
  std::vector<Unit> units;
  add_attention(units);
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
