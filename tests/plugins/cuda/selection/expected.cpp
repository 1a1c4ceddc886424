#include "tests/plugins/cuda/selection/expected.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace bonsai::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// NaN after everything else; equal logits by id.
bool comes_first(const std::vector<float> &logits, int32_t a, int32_t b) {
  const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? a < b : std::isnan(y);
  return x == y ? a < b : x > y;
}

std::vector<int32_t> largest(const std::vector<float> &logits, uint32_t k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return comes_first(logits, a, b); });
  ids.resize(k);
  return ids;
}

std::vector<float> at(const std::vector<float> &logits, const std::vector<int32_t> &ids) {
  std::vector<float> found;
  for (const int32_t id : ids) found.push_back(logits[static_cast<size_t>(id)]);
  return found;
}

template <class T>
std::string difference(const char *name, const std::vector<T> &expected, const std::vector<T> &actual) {
  if (expected.size() != actual.size()) return fmt::format("{} numbers of {}", actual.size(), name);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&expected[i], &actual[i], sizeof(T)) == 0) continue;
    return fmt::format("{}[{}] is {}, expected {}", name, i, actual[i], expected[i]);
  }
  return "";
}

}  // namespace

bonsai_output output_of(const Wanted &wanted, Given &given, uint32_t vocab) {
  const bool is_top = wanted.kind == BONSAI_OUTPUT_TOP_K, is_largest = wanted.kind == BONSAI_OUTPUT_ARGMAX;
  given = {};
  given.top_ids.resize(is_largest ? 1 : wanted.k);
  given.top_logits.resize(given.top_ids.size());
  given.id_logits.resize(wanted.ids.size());
  given.log_sum_exp.resize(is_top && wanted.has_log_sum_exp);
  given.row.resize(is_top || is_largest ? 0 : vocab);
  bonsai_output output = {};
  output.struct_size = sizeof output;
  output.kind = wanted.kind;
  output.token = wanted.token;
  output.k = wanted.k;
  output.n_ids = static_cast<uint32_t>(wanted.ids.size());
  output.n_adjustments = static_cast<uint32_t>(wanted.adjust_ids.size());
  output.ids = wanted.ids.data();
  output.adjust_ids = wanted.adjust_ids.data();
  output.adjust_add = wanted.adjust_add.data();
  output.adjust_repeat = wanted.adjust_repeat.data();
  output.mask = wanted.mask.empty() ? nullptr : wanted.mask.data();
  output.temperature = wanted.temperature;
  output.logits = output.hidden = given.row.data();
  output.top_ids = given.top_ids.data();
  output.top_logits = given.top_logits.data();
  output.id_logits = given.id_logits.data();
  output.log_sum_exp = given.log_sum_exp.empty() ? nullptr : given.log_sum_exp.data();
  return output;
}

std::vector<float> adjusted(const Wanted &wanted, std::vector<float> logits) {
  for (size_t i = 0; i < wanted.adjust_ids.size(); ++i) {
    float &logit = logits[static_cast<size_t>(wanted.adjust_ids[i])];
    const float repeat = wanted.adjust_repeat[i];
    const float repeated = logit > 0 ? logit / repeat : logit * repeat;
    logit = repeated + wanted.adjust_add[i];
  }
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!wanted.mask.empty() && !(wanted.mask[id / 32] >> (id % 32) & 1)) logits[id] = -kInfinity;
    if (wanted.temperature != 0) logits[id] /= wanted.temperature;
  }
  return logits;
}

double log_sum_exp(const std::vector<float> &logits) {
  float most = -kInfinity;
  for (const float logit : logits) most = logit > most ? logit : most;
  if (std::isinf(most)) return most;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - most);
  return most + std::log(sum);
}

Given expected(const Wanted &wanted, const std::vector<float> &row) {
  Given given;
  if (wanted.kind == BONSAI_OUTPUT_HIDDEN) {
    given.row = row;
    return given;
  }
  const std::vector<float> logits = adjusted(wanted, row);
  if (wanted.kind == BONSAI_OUTPUT_LOGITS) {
    given.row = logits;
    return given;
  }
  given.top_ids = largest(logits, wanted.kind == BONSAI_OUTPUT_ARGMAX ? 1 : wanted.k);
  given.top_logits = at(logits, given.top_ids);
  given.selected = given.top_ids[0];
  if (wanted.kind == BONSAI_OUTPUT_ARGMAX) return given;
  given.id_logits = at(logits, wanted.ids);
  if (wanted.has_log_sum_exp) given.log_sum_exp = {static_cast<float>(log_sum_exp(logits))};
  return given;
}

std::string difference(const Given &expected, const Given &actual) {
  if (expected.selected != actual.selected) {
    return fmt::format("selected is {}, expected {}", actual.selected, expected.selected);
  }
  std::string found = difference("top_ids", expected.top_ids, actual.top_ids);
  if (found.empty()) found = difference("top_logits", expected.top_logits, actual.top_logits);
  if (found.empty()) found = difference("id_logits", expected.id_logits, actual.id_logits);
  if (found.empty()) found = difference("row", expected.row, actual.row);
  if (!found.empty() || expected.log_sum_exp.empty()) return found;
  const float wanted = expected.log_sum_exp[0], sum = actual.log_sum_exp[0];
  if (sum == wanted || (std::isnan(sum) && std::isnan(wanted))) return "";
  if (std::abs(sum - wanted) <= 1e-6f * std::max(1.0f, std::abs(wanted))) return "";
  return fmt::format("log_sum_exp is {}, expected {}", sum, wanted);
}

std::vector<uint8_t> bytes_of(const Given &given) {
  std::vector<uint8_t> bytes;
  const auto append = [&](const auto &numbers) {
    const auto *first = reinterpret_cast<const uint8_t *>(numbers.data());
    bytes.insert(bytes.end(), first, first + numbers.size() * sizeof numbers[0]);
  };
  append(std::vector<int32_t>{given.selected});
  append(given.top_ids);
  append(given.top_logits);
  append(given.id_logits);
  append(given.log_sum_exp);
  append(given.row);
  return bytes;
}

}  // namespace bonsai::cuda
