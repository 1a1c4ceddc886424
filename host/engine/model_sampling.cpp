#include "host/engine/model_sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include "core/base/utf8.h"

namespace bonsai::host {
namespace {

constexpr std::string_view kPrefix = "general.sampling.";
constexpr double kMostFloat = std::numeric_limits<float>::max();
constexpr int32_t kMostCount = std::numeric_limits<int32_t>::max();

std::optional<float> number(const gguf::Value &value, double least, double most) {
  const auto found = value.as_number();
  if (!found || !(*found >= least && *found <= most)) return std::nullopt;
  return static_cast<float>(*found);
}

std::optional<int32_t> count(const gguf::Value &value) {
  const auto found = value.as_int();
  if (!found || *found < -1 || *found > kMostCount) return std::nullopt;
  return static_cast<int32_t>(*found);
}

template <class Option, class Found>
bool set(Option &option, const std::optional<Found> &found) {
  if (found) option = static_cast<Option>(*found);
  return found.has_value();
}

struct Key {
  std::string_view name;
  std::string_view expected;
  bool (*read)(const gguf::Value &value, SamplingOptions &options);  // false, and nothing changed: something else
};

constexpr Key kKeys[] = {
    {"temp", "a number >= 0",
     [](const gguf::Value &value, SamplingOptions &options) {
       return set(options.temperature, number(value, 0, kMostFloat));
     }},
    {"top_k", "a whole number, or -1 for all",
     [](const gguf::Value &value, SamplingOptions &options) {
       const auto found = count(value);
       return set(options.top_k, found ? std::optional(std::max(*found, 0)) : std::nullopt);
     }},
    {"top_p", "a number from 0 to 1",
     [](const gguf::Value &value, SamplingOptions &options) { return set(options.top_p, number(value, 0, 1)); }},
    {"min_p", "a number from 0 to 1",
     [](const gguf::Value &value, SamplingOptions &options) { return set(options.min_p, number(value, 0, 1)); }},
    {"penalty_repeat", "a number > 0",
     [](const gguf::Value &value, SamplingOptions &options) {
       return set(options.repetition_penalty, number(value, std::numeric_limits<float>::min(), kMostFloat));
     }},
    {"penalty_last_n", "a whole number, or -1 for all",
     [](const gguf::Value &value, SamplingOptions &options) { return set(options.penalty_window, count(value)); }},
};

// Of the ways of choosing that are not offered here: off at 0, or only how another is done.
bool is_off(std::string_view name, const gguf::Value &value) {
  return value.as_number() == 0.0 || name == "mirostat_tau" || name == "mirostat_eta" || name == "xtc_threshold";
}

}  // namespace

ModelSampling model_sampling(const gguf::File &file) {
  ModelSampling sampling;
  for (const auto &[key, value] : file.metadata()) {
    if (!key.starts_with(kPrefix)) continue;
    const std::string_view name = key.substr(kPrefix.size());
    const auto *known = std::ranges::find(kKeys, name, &Key::name);
    if (known == std::end(kKeys)) {
      if (!is_off(name, value))
        sampling.warnings.push_back(
            fmt::format("{}: {}: not known here, tokens are chosen without it", file.path(), quoted(key)));
    } else if (known->read(value, sampling.options)) {
      sampling.is_given = true;
    } else {
      sampling.warnings.push_back(
          fmt::format("{}: {}: expected {}, found {}; not used", file.path(), key, known->expected, describe(value)));
    }
  }
  return sampling;
}

}  // namespace bonsai::host
