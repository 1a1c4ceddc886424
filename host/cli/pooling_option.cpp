#include "host/cli/pooling_option.h"

#include <fmt/format.h>

#include "core/base/utf8.h"

namespace bonsai::cli {

void add_pooling_option(Options &options) {
  options.value("pooling", "NAME",
                "an embedding is the mean (default) of all tokens' hidden states, or the last token's: mean, last");
}

Pooling pooling_option(const Arguments &arguments) {
  const std::string name = arguments.text("pooling").value_or("mean");
  if (name == "mean") return Pooling::kMean;
  if (name == "last") return Pooling::kLast;
  throw UsageError(fmt::format("--pooling: expected mean or last, found {}", bonsai::quoted(name)));
}

}  // namespace bonsai::cli
