#include "plugins/common/weight_description.h"

#include <limits>

#include "plugins/common/failure.h"
#include "plugins/common/model_shape.h"

namespace bonsai::plugin {
namespace {

constexpr bonsai_weight_use kUses = BONSAI_USE_MATRIX | BONSAI_USE_EMBEDDING;

void check_part(const bonsai_weight_part &part, const bonsai_weight_desc &desc, const std::string &name,
                SupportedUses supported_uses) {
  const quant::FormatTraits *format = find_traits(part.dtype);
  if (!format) refuse("{}: unknown dtype {}, expected 0 to {}", name, part.dtype, quant::formats().size() - 1);
  if (desc.uses & ~supported_uses(part.dtype)) refuse("{}: no kernel multiplies with {}", name, format->name);
  const uint64_t columns = desc.columns;
  if (columns > std::numeric_limits<uint32_t>::max()) {
    refuse("{}: columns is {}, expected at most {}", name, columns, std::numeric_limits<uint32_t>::max());
  }
  if (columns % format->block_weights != 0) {
    reject("{}: {} columns are not whole blocks of {}, which has {}", name, columns, format->name,
           format->block_weights);
  }
  if (part.rows == 0) reject("{}: a part has 0 rows, expected at least 1", name);
  if (!part.data) reject("{}: a part's data is NULL", name);
  uint64_t expected = 0;
  if (__builtin_mul_overflow(part.rows, quant::row_bytes(*format, columns), &expected) || expected != part.data_bytes) {
    reject("{}: data_bytes is {}, expected {} rows of {} columns in {}", name, part.data_bytes, part.rows, columns,
           format->name);
  }
}

}  // namespace

const quant::FormatTraits *find_traits(bonsai_dtype dtype) {
  return dtype < quant::formats().size() ? &quant::formats()[dtype] : nullptr;
}

std::string check_description(const bonsai_weight_desc &desc, SupportedUses supported_uses) {
  const std::string name = desc.name ? desc.name : "weight";
  if (desc.flags & ~uint32_t{BONSAI_WEIGHT_BORROWED}) refuse("{}: unknown flags {:#x}", name, desc.flags);
  if (desc.uses & ~kUses) refuse("{}: unknown uses {:#x}", name, desc.uses);
  if (desc.uses == 0) reject("{}: uses is 0, expected at least one", name);
  if (desc.n_parts == 0) reject("{}: n_parts is 0, expected at least 1", name);
  if (desc.columns == 0) reject("{}: columns is 0, expected at least 1", name);
  if (!desc.parts) reject("{}: parts is NULL", name);
  for (uint32_t i = 0; i < desc.n_parts; ++i) check_part(checked(desc.parts[i], "part"), desc, name, supported_uses);
  return name;
}

void check_gemv(const bonsai_gemv_args &args, const WeightShape &weight) {
  if (!(weight.uses & BONSAI_USE_MATRIX)) reject("the weight was not uploaded for BONSAI_USE_MATRIX");
  if (args.n == 0) reject("args->n is 0, expected at least 1");
  if (args.rows == 0) reject("args->rows is 0, expected at least 1");
  if (args.first_row > weight.rows || args.rows > weight.rows - args.first_row) {
    reject("rows {} to {} reach beyond the weight's {}", args.first_row, args.first_row + args.rows, weight.rows);
  }
}

}  // namespace bonsai::plugin
