#include "core/gguf/parts.h"

#include <fmt/format.h>

namespace bonsai::gguf {
namespace {

std::string name_end(uint64_t index, uint64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count); }

}  // namespace

std::string PartKeys::describe() const {
  return index ? fmt::format("part {} of {}", *index + 1, count) : fmt::format("one of {} parts", count);
}

std::optional<PartKeys> part_keys(const File &file) {
  const auto number = [&](std::string_view key) {
    const Value *value = file.find(key);
    return value != nullptr ? value->as_uint() : std::nullopt;
  };
  const uint64_t count = number("split.count").value_or(1);
  if (count <= 1) return std::nullopt;
  auto index = number("split.no");
  if (index && *index >= count) index.reset();
  return PartKeys{index, count, number("split.tensors.count")};
}

Result<std::string> path_of_part(const std::string &first_path, uint64_t index, uint64_t count) {
  const std::string first_end = name_end(0, count);
  if (!first_path.ends_with(first_end)) {
    return fail(
        "part 1 of {} of a model (split.count), expected a name that ends in {}, beside which the other parts are",
        count, first_end);
  }
  return first_path.substr(0, first_path.size() - first_end.size()) + name_end(index, count);
}

}  // namespace bonsai::gguf
