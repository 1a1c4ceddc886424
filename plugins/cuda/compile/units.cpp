#include "plugins/cuda/compile/units.h"

#include "plugins/common/failure.h"

namespace bonsai::cuda {
namespace {

// Attention is compiled for each KV dtype and each size that heads are filled up to (kv_layout.cuh).
void add_attention(std::vector<Unit> &units) {
  units.push_back({.name = "rope", .file = "rope.cu", .defines = {}, .hot = {{"prepare_heads", 80}}});
  units.push_back({.name = "kv",
                   .file = "kv.cu",
                   .defines = {},
                   .hot = {{"copy_blocks", 64}, {"export_rows", 64}, {"import_rows", 64}}});
  for (const char *dtype : {"F16", "Q8_0", "F32"}) {
    for (const uint32_t head_dim : {32, 64, 96, 128, 192, 256}) {
      std::vector<HotKernel> hot = {{"attend_wide", 255}, {"combine_sections", 96}};
      // Larger heads spill a little, and nobody decodes with F32 for its speed.
      if (head_dim <= 128 && dtype != std::string_view("F32")) hot.push_back({"attend_narrow", 128});
      units.push_back({.name = fmt::format("attention.{}.{}", dtype, head_dim),
                       .file = "attention.cu",
                       .defines = {fmt::format("BONSAI_KV={}_{}", dtype, head_dim)},
                       .hot = std::move(hot)});
    }
  }
}

// Of "matmul". The sums of 16 or 32 tokens and a step's weights are just too many registers with a few formats, and so
// are those of 64 where a multiprocessor holds two blocks, which is worth more: 128 bytes up to compute capability 9.0,
// 560 on 10.0 and 12.0, which nobody has measured.
std::vector<HotKernel> hot_products(int decode_registers, int most_registers, HotKernel prefill) {
  return {{"matmul_decode", decode_registers},
          {"matmul_decode_16", most_registers, 128},
          {"matmul_decode_32", most_registers, 192},
          prefill};
}

// Products and embeddings are compiled for each format that matrices are packed in (layout/packed_matrix.h).
void add_products(std::vector<Unit> &units) {
  const auto add = [&](const std::string &kernels, const char *format, const std::vector<HotKernel> &hot) {
    units.push_back({.name = fmt::format("{}.{}", kernels, format),
                     .file = kernels + ".cu",
                     .defines = {fmt::format("BONSAI_FORMAT={}", format)},
                     .hot = hot});
  };
  units.push_back({.name = "activations",
                   .file = "activations.cu",
                   .defines = {},
                   .hot = {{"rms_norm_quantize", 64}, {"quantize", 64}, {"swiglu_quantize", 64}}});
  for (const char *format : {"F32", "F16", "F8_E4M3", "F8_E5M2"}) {
    add("matmul", format, hot_products(128, 128, {"matmul_prefill", 128, 640}));
    add("embedding", format, {{"embed", 40}});
  }
  for (const char *format : {"Q8_0", "Q4_0", "Q1_0_G128", "TQ2_0_G128", "Q2_0_G64", "Q4_1", "Q5_0", "Q5_1", "Q2_K",
                             "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K", "IQ4_NL", "IQ4_XS"}) {
    const bool is_long = format == std::string_view("Q5_1");
    const bool is_alone = is_long || format == std::string_view("Q5_K");  // prefill_blocks
    add("matmul", format,
        hot_products(is_long ? 216 : 128, is_long ? 255 : 128,
                     is_alone ? HotKernel{"matmul_prefill", 240} : HotKernel{"matmul_prefill", 128, 640}));
    // With uneven codes up to 16 bytes on compute capability 8.6 to 9.0.
    const int spilled = std::string_view(format).starts_with("IQ4") ? 16 : 0;
    add("matmul_one", format, {{"matmul_one", format == std::string_view("Q3_K") ? 216 : 168, spilled}});
    add("embedding", format, {{"embed", 40}});
  }
  // Up to 100 bytes (Q2_0_G64 on compute capability 12.0), and, with 16 tokens, 368 (IQ4_NL on 8.6 and 8.9; others
  // 288).
  for (const char *format : {"Q1_0_G128", "TQ2_0_G128", "Q2_0_G64", "Q4_0", "Q5_0", "Q8_0", "IQ4_NL"}) {
    add("matmul_held", format, {{"matmul_held_8", 128, 112}, {"matmul_held_16", 128, 368}});
  }
  // 8 bytes on compute capability 8.6 and 8.9.
  add("matmul_bits", "Q1_0_G128",
      {{"matmul_bits_1", 80, 16},
       {"matmul_bits_1_gated", 128},
       {"matmul_bits_1_long", 80, 16},
       {"matmul_bits_2", 128},
       {"matmul_bits_4", 128}});
  add("matmul_bits", "TQ2_0_G128",
      {{"matmul_bits_1", 128}, {"matmul_bits_1_long", 128}, {"matmul_bits_2", 128}, {"matmul_bits_4", 168}});
}

std::vector<Unit> make_units() {
  std::vector<Unit> units;
  add_products(units);
  add_attention(units);
  units.push_back({.name = "selection",
                   .file = "selection.cu",
                   .defines = {},
                   .hot = {{"select_chunks", 48}, {"select_finish", 64}}});
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
