#include "tools/quantize/plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <utility>

namespace bonsai::quantize {
namespace {

bool matches(const KeepRule &rule, std::string_view name) {
  return fnmatch(rule.pattern.c_str(), std::string(name).c_str(), FNM_NOESCAPE) == 0;
}

bool is_matrix(const gguf::Tensor &tensor) { return tensor.shape.size() > 1; }

bool divides(const quant::FormatTraits &format, const gguf::Tensor &tensor) {
  return tensor.columns() % format.block_weights == 0;
}

const quant::FormatTraits &wanted_format(const gguf::Tensor &tensor, const Request &request) {
  const auto rule = std::find_if(request.keep.rbegin(), request.keep.rend(),
                                 [&](const KeepRule &candidate) { return matches(candidate, tensor.name); });
  return rule == request.keep.rend() ? *request.format : *rule->format;
}

const quant::FormatTraits &fallback_format(const gguf::Tensor &tensor) {
  const quant::FormatTraits &q8_0 = quant::traits(quant::Format::kQ8_0);
  return divides(q8_0, tensor) ? q8_0 : quant::traits(quant::Format::kF16);
}

// "blk.12.ffn_up.weight" -> "blk.*.ffn_up.weight", which is also a pattern for --keep.
std::string kind_of(std::string_view name) {
  std::string kind;
  while (!name.empty()) {
    const size_t end = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, end);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    kind += is_number ? "*" : part;
    if (end < name.size()) kind += '.';
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return kind;
}

// One line for all tensors that differ in the layer's number alone: "blk.*.ffn_up.weight (28 tensors): ...".
class NoticesByKind {
 public:
  void add(std::string_view tensor, std::string what) {
    const auto [known, is_new] = places_.try_emplace({kind_of(tensor), std::move(what)}, notices_.size());
    if (is_new) notices_.push_back({&known->first, std::string(tensor), 0});
    ++notices_[known->second].tensors;
  }

  void append_to(std::vector<std::string> &notices) const {
    for (const Notice &notice : notices_) {
      const auto &[kind, what] = *notice.subject;
      const std::string who =
          notice.tensors == 1 ? notice.first_tensor : fmt::format("{} ({} tensors)", kind, notice.tensors);
      notices.push_back(fmt::format("{}: {}", who, what));
    }
  }

 private:
  using Subject = std::pair<std::string, std::string>;  // the kind of tensor and what is said about it
  struct Notice {
    const Subject *subject;
    std::string first_tensor;
    uint64_t tensors;
  };
  std::vector<Notice> notices_;       // in order of appearance
  std::map<Subject, size_t> places_;  // in notices_
};

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

std::vector<PlannedTensor> plan_tensors(const gguf::File &file, const Request &request,
                                        std::vector<std::string> &notices) {
  std::vector<PlannedTensor> plan;
  NoticesByKind fallbacks;
  for (const gguf::Tensor &tensor : file.tensors()) {
    if (!is_matrix(tensor)) {
      plan.push_back({&tensor, &quant::traits(quant::Format::kF32)});
      continue;
    }
    const quant::FormatTraits *format = &wanted_format(tensor, request);
    if (!divides(*format, tensor)) {
      const quant::FormatTraits &fallback = fallback_format(tensor);
      fallbacks.add(tensor.name, fmt::format("rows of {} do not divide into {}'s blocks of {}; written as {}",
                                             tensor.columns(), format->name, format->block_weights, fallback.name));
      format = &fallback;
    }
    plan.push_back({&tensor, format});
  }
  fallbacks.append_to(notices);
  report_idle_rules(file, request, notices);
  return plan;
}

}  // namespace bonsai::quantize
