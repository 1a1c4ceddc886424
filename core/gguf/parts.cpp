#include "core/gguf/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <string_view>
#include <variant>

#include "core/base/utf8.h"
#include "core/gguf/value_reader.h"

namespace bonsai::gguf {
namespace {

constexpr size_t kPartDigits = 5;

std::string name_end(uint64_t index, uint64_t count) {
  return fmt::format("-{:0{}}-of-{:0{}}.gguf", index + 1, kPartDigits, count, kPartDigits);
}

// nullopt where the key is missing.
Result<std::optional<uint64_t>> whole_number(const File &file, std::string_view key) {
  const Value *value = file.find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->as_uint();
  if (!number) {
    return fail("{}: {}: expected a whole number from 0 on, found {} ({})", file.path(), key, describe(*value),
                type_name(value->type));
  }
  return number;
}

// Numbers of different types are equal where both are whole and the same.
bool are_equal(const Value &a, const Value &b) {
  if (a.type != b.type) {
    const auto low = a.as_int(), other_low = b.as_int();
    const auto high = a.as_uint(), other_high = b.as_uint();
    return (low && low == other_low) || (high && high == other_high);
  }
  if (const Array *array = a.as_array()) {
    const Array &other = *b.as_array();
    return array->element_type == other.element_type && array->count == other.count &&
           std::equal(array->payload.begin(), array->payload.end(), other.payload.begin(), other.payload.end());
  }
  if (const auto text = a.as_string()) return text == b.as_string();
  if (const auto boolean = a.as_bool()) return boolean == b.as_bool();
  if (const auto *number = std::get_if<double>(&a.data))
    return std::bit_cast<uint64_t>(*number) == std::bit_cast<uint64_t>(std::get<double>(b.data));
  return a.as_int() == b.as_int() && a.as_uint() == b.as_uint();
}

// What the type is of values that look alike, such as 0.5 in 32 and in 64 bits, or of an array's elements.
std::string describe_type(const Value &value) {
  const Array *array = value.as_array();
  return array == nullptr ? type_name(value.type) : "of " + type_name(array->element_type);
}

// "expected 4, as FILE has it, found 5"
std::string describe_difference(const Value &expected, const std::string &file, const Value &found) {
  std::string there = describe(expected), here = describe(found);
  if (there == here) {
    const std::string type = describe_type(expected), other_type = describe_type(found);
    if (type == other_type) {
      here = "another value";  // of two arrays as long as each other little is to be seen
    } else {
      there += fmt::format(" ({})", type);
      here += fmt::format(" ({})", other_type);
    }
  }
  return fmt::format("expected {}, as {} has it, found {}", there, file, here);
}

}  // namespace

std::string PartKeys::describe() const {
  return index ? fmt::format("part {} of {}", *index + 1, count) : fmt::format("one of {} parts", count);
}

Result<std::optional<PartKeys>> part_keys(const File &file) {
  const auto count = whole_number(file, "split.count");
  if (!count) return tl::unexpected(count.error());
  const auto index = whole_number(file, "split.no");
  if (!index) return tl::unexpected(index.error());
  const auto tensors = whole_number(file, "split.tensors.count");
  if (!tensors) return tl::unexpected(tensors.error());
  if (count->value_or(1) <= 1) return std::nullopt;
  if (*index && **index >= **count)
    return fail("{}: split.no: expected 0 to {}, as split.count is {}, found {}", file.path(), **count - 1, **count,
                **index);
  return PartKeys{*index, **count, *tensors};
}

Result<void> check_agreement(const File &first, const File &part) {
  for (const auto &[key, value] : part.metadata()) {
    const Value *expected = key.starts_with("split.") || key == "general.alignment" ? nullptr : first.find(key);
    if (expected == nullptr || are_equal(value, *expected)) continue;
    return fail("{}: {}: {}", part.path(), printable(key), describe_difference(*expected, first.path(), value));
  }
  return {};
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

std::vector<std::string> paths_of_parts(const std::string &path) {
  constexpr std::string_view kOf = "-of-", kEnd = ".gguf";
  const size_t n_behind_of = kPartDigits + kEnd.size();
  const size_t of = path.size() < n_behind_of ? path.npos : path.rfind(kOf, path.size() - n_behind_of);
  uint64_t count = 0;
  if (of != path.npos) {
    const char *digits = path.data() + of + kOf.size();
    std::from_chars(digits, digits + kPartDigits, count);
  }
  std::vector<std::string> paths;
  for (uint64_t i = 0; i < count; ++i) {
    auto part = path_of_part(path, i, count);
    if (!part) break;
    paths.push_back(*std::move(part));
  }
  return paths.empty() ? std::vector{path} : paths;
}

}  // namespace bonsai::gguf
