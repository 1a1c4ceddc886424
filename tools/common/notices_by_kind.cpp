#include "tools/common/notices_by_kind.h"

#include <fmt/format.h>

#include <algorithm>

namespace bonsai::tools {
namespace {

// "blk.12.ffn_up.weight" -> "blk.*.ffn_up.weight".
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

}  // namespace

void NoticesByKind::add(std::string_view tensor, std::string what) {
  const auto [known, is_new] = places_.try_emplace({kind_of(tensor), std::move(what)}, notices_.size());
  if (is_new) notices_.push_back({&known->first, std::string(tensor), 0});
  ++notices_[known->second].tensors;
}

void NoticesByKind::add_vanished(std::string_view tensor, std::string_view format) {
  add(tensor, fmt::format("all weights became 0, as {} holds none that are so small", format));
}

void NoticesByKind::append_to(std::vector<std::string> &notices) const {
  for (const Notice &notice : notices_) {
    const auto &[kind, what] = *notice.subject;
    const std::string who =
        notice.tensors == 1 ? notice.first_tensor : fmt::format("{} ({} tensors)", kind, notice.tensors);
    notices.push_back(fmt::format("{}: {}", who, what));
  }
}

}  // namespace bonsai::tools
