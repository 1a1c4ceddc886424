#include "tools/quantize/plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "tools/common/formats.h"
#include "tools/common/notices_by_kind.h"

namespace bonsai::quantize {
namespace {

bool matches(const KeepRule &rule, std::string_view name) {
  return fnmatch(rule.pattern.c_str(), std::string(name).c_str(), FNM_NOESCAPE) == 0;
}

const quant::FormatTraits &wanted_format(const gguf::Tensor &tensor, const Request &request) {
  const auto rule = std::find_if(request.keep.rbegin(), request.keep.rend(),
                                 [&](const KeepRule &candidate) { return matches(candidate, tensor.name); });
  return rule == request.keep.rend() ? *request.format : *rule->format;
}

// A misspelt pattern would pass for one that worked.
void report_idle_rules(const gguf::File &file, const Request &request, std::vector<std::string> &notices) {
  for (const KeepRule &rule : request.keep) {
    const bool matched = std::any_of(file.tensors().begin(), file.tensors().end(), [&](const gguf::Tensor &tensor) {
      return is_matrix(tensor) && matches(rule, tensor.name);
    });
    if (!matched) notices.push_back(fmt::format("--keep '{}={}': matches no matrix", rule.pattern, rule.format->name));
  }
}

}  // namespace

bool is_matrix(const gguf::Tensor &tensor) { return tensor.rows() > 1; }

std::vector<PlannedTensor> plan_tensors(const gguf::File &file, const Request &request,
                                        std::vector<std::string> &notices) {
  std::vector<PlannedTensor> plan;
  tools::NoticesByKind fallbacks;
  for (const gguf::Tensor &tensor : file.tensors()) {
    if (!is_matrix(tensor)) {
      plan.push_back({&tensor, &quant::traits(quant::Format::kF32)});
      continue;
    }
    const auto &format =
        tools::format_for_rows(tensor.name, tensor.columns(), wanted_format(tensor, request), fallbacks);
    plan.push_back({&tensor, &format});
  }
  fallbacks.append_to(notices);
  report_idle_rules(file, request, notices);
  return plan;
}

}  // namespace bonsai::quantize
