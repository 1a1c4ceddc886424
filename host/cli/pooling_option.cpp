#include "host/cli/pooling_option.h"

#include <fmt/format.h>

#include "core/base/utf8.h"

namespace bonsai::cli {

void add_pooling_option(Options &options) {
  options.value("pooling", "NAME",
                "an embedding is the mean of all tokens' hidden states, or the last token's: mean, last (what the "
                "model's file says, else the mean)");
}

Pooling pooling_option(const Arguments &arguments) {
  const auto name = arguments.text("pooling");
  if (!name) return Pooling::kModel;
  if (*name == "mean") return Pooling::kMean;
  if (*name == "last") return Pooling::kLast;
  throw UsageError(fmt::format("--pooling: expected mean or last, found {}", bonsai::quoted(*name)));
}

}  // namespace bonsai::cli
