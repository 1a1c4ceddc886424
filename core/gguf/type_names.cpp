#include "core/gguf/type_names.h"

#include <fmt/format.h>

#include <string_view>

#include "core/quant/format.h"

namespace bonsai::gguf {
namespace {

struct TypeName {
  uint32_t id;
  std::string_view name;
  bool removed = false;  // from ggml: no file of today holds it
};

// ggml's ids that quant::formats() lacks.
constexpr TypeName kTypeNames[] = {
    {4, "Q4_2", true},
    {5, "Q4_3", true},
    {9, "Q8_1"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {29, "IQ1_M"},
    {31, "Q4_0_4_4", true},
    {32, "Q4_0_4_8", true},
    {33, "Q4_0_8_8", true},
    {36, "IQ4_NL_4_4", true},
    {37, "IQ4_NL_4_8", true},
    {38, "IQ4_NL_8_8", true},
    {39, "MXFP4"},
    {40, "NVFP4"},
};

std::string readable_types() {
  std::string out;
  for (const quant::FormatTraits &format : quant::formats()) {
    out += fmt::format("{}{} ({})", out.empty() ? "" : ", ", format.gguf_type, format.gguf_name);
  }
  return out;
}

}  // namespace

std::string explain_unreadable_type(uint32_t gguf_type) {
  std::string what = fmt::format("{}, which is no type that this program knows", gguf_type);
  for (const TypeName &type : kTypeNames) {
    if (type.id != gguf_type) continue;
    what = fmt::format("{} ({}), which {}", type.id, type.name,
                       type.removed ? "was removed from ggml" : "this program does not read");
  }
  return fmt::format("found {}; expected one of {}", what, readable_types());
}

}  // namespace bonsai::gguf
