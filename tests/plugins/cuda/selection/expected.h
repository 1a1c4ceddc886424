// What the ABI promises of an output, computed plainly: adjust, sort, add in float64.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <string>
#include <vector>

namespace bonsai::cuda {

// An output and the memory that it points to.
struct Wanted {
  bonsai_output_kind kind = BONSAI_OUTPUT_ARGMAX;
  uint32_t token = 0;
  uint32_t k = 0;
  std::vector<int32_t> ids = {};
  std::vector<int32_t> adjust_ids = {};
  std::vector<float> adjust_add = {}, adjust_repeat = {};
  std::vector<uint32_t> mask = {};
  float temperature = 0;
  bool has_log_sum_exp = true;  // of TOP_K
};

// What an output of a kind gives; what the kind does not name is empty.
struct Given {
  int32_t selected = -1;
  std::vector<int32_t> top_ids;
  std::vector<float> top_logits, id_logits, log_sum_exp;
  std::vector<float> row;  // LOGITS or HIDDEN
};

// The ABI's struct for `wanted`, writing to `given`, which it makes room in.
bonsai_output output_of(const Wanted &wanted, Given &given, uint32_t vocab);

std::vector<float> adjusted(const Wanted &wanted, std::vector<float> logits);

// log(sum(exp)) in float64; an infinite largest logit is the result, else NaN if one is there.
double log_sum_exp(const std::vector<float> &logits);

// `row`: the token's logits, or its hidden states.
Given expected(const Wanted &wanted, const std::vector<float> &row);

// Equal bytes, but for the log-sum-exp, which may be off by 1e-6 of itself, or of 1. Otherwise says where they differ.
std::string difference(const Given &expected, const Given &actual);

// All bytes, for "the same bytes".
std::vector<uint8_t> bytes_of(const Given &given);

}  // namespace bonsai::cuda
