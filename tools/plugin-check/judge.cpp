#include "tools/plugin-check/judge.h"

#include <bit>
#include <cmath>

#include "tools/plugin-check/batch.h"
#include "tools/plugin-check/context.h"
#include "tools/plugin-check/random.h"

namespace bonsai::check {
namespace {

reference::KvType reference_kv(bonsai_kv_dtype dtype) {
  if (dtype == BONSAI_KV_F32) return reference::KvType::kF32;
  return dtype == BONSAI_KV_F16 ? reference::KvType::kF16 : reference::KvType::kQ8_0;
}

struct Distance {
  double difference = 0, norm = 0;  // squared
};

Distance distance(std::span<const float> values, std::span<const double> expected) {
  Distance sum;
  for (size_t i = 0; i < expected.size(); ++i) {
    sum.difference += (values[i] - expected[i]) * (values[i] - expected[i]);
    sum.norm += expected[i] * expected[i];
  }
  return sum;
}

}  // namespace

Logits judge(const model::Model &model, bonsai_kv_dtype kv_dtype, std::span<const int32_t> tokens) {
  reference::Evaluator evaluator(model, reference_kv(kv_dtype));
  return value_of(evaluator.steps(tokens));
}

Logits judge_hidden(const model::Model &model, bonsai_kv_dtype kv_dtype, std::span<const int32_t> tokens) {
  reference::Evaluator evaluator(model, reference_kv(kv_dtype));
  Logits rows;
  for (const int32_t token : tokens) {
    value_of(evaluator.step(token));
    rows.push_back(evaluator.last_hidden());
  }
  return rows;
}

double relative_error(std::span<const float> values, std::span<const double> expected) {
  const Distance sum = distance(values, expected);
  return std::sqrt(sum.difference / sum.norm);
}

void Comparison::add(const std::string &what, std::span<const float> values, std::span<const double> expected) {
  expect(values.size() == expected.size(), "{}: {} values, expected {}", what, values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    expect(std::bit_cast<uint32_t>(values[i]) != kUnwrittenBits, "{}: element {} of {} was not written", what, i,
           values.size());
    expect(
        !std::isnan(values[i]),
        "{}: element {} of {} is NaN, as is what the suite puts behind a call into arrays that are read during it only",
        what, i, values.size());
  }
  const Distance sum = distance(values, expected);
  const double error = std::sqrt(sum.difference / sum.norm), bound = 3 * bound_;
  expect(error <= bound, "{}: relative error {:.2e}, expected at most {:.0e}", what, error, bound);
  difference_ += sum.difference;
  norm_ += sum.norm;
}

void Comparison::add_rows(const std::string &what, const std::vector<std::vector<float>> &rows, const Logits &expected,
                          uint32_t start) {
  for (uint32_t i = 0; i < rows.size(); ++i) {
    add(fmt::format("{}, position {}", what, start + i), rows[i], expected[start + i]);
  }
}

void Comparison::finish(const std::string &what) const {
  const double error = std::sqrt(difference_ / norm_);
  expect(error <= bound_, "{}: relative error {:.2e}, expected at most {:.0e}", what, error, bound_);
}

std::vector<int32_t> random_tokens(uint32_t n, uint32_t vocab, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t &token : tokens) token = static_cast<int32_t>(random.below(vocab));
  return tokens;
}

}  // namespace bonsai::check
