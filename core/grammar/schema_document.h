// JSON schemas as values: read from a text and written as one. The library's reader and writer are large templates;
// this is the one place that makes code of them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/result.h"

namespace bonsai::grammar {

using Json = nlohmann::ordered_json;

// The schema's document; errors for texts that are too long, nested too deep or no JSON.
Result<Json> parse_schema_document(std::string_view json);

// The numbers of a document that no double holds to the last digit, as they are spelled, by what has become of them.
// Precondition: it has been parsed.
std::map<double, std::string> lossy_numbers(std::string_view json);

// A value as JSON without white space.
std::string text_of(const Json &value);
// The same as it is written where it comes out: whole numbers without point and exponent, others in the fewest digits.
std::string written(const Json &value);

// Comparisons of values, which are as JSON Schema has them: 1 is 1.0, and the members of objects have no order. The
// library's own take whole numbers above 2^63 for negative ones.
bool is_same(const Json &a, const Json &b);
// Precondition: both are numbers.
bool is_less(const Json &a, const Json &b);
// Whether `values`, a list, has it.
bool has_value(const Json &values, const Json &value);
// A text that values have in common exactly if they are the same: in a set of these each is found at once.
std::string key_of(const Json &value);

// An object's members by name: the library goes through all of them for each. The object must outlive it, with these
// members.
class Members {
 public:
  explicit Members(const Json &object);
  explicit Members(Json &&object) = delete;
  // Its number; npos: there is none.
  size_t find(const std::string &name) const;
  static constexpr size_t npos = ~size_t{0};

 private:
  std::unordered_map<std::string_view, size_t> numbers_;
};

// A number as it is: the type holds each double and each whole number of 64 bits.
long double number_of(const Json &number);

}  // namespace bonsai::grammar
