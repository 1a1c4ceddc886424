#include "tools/plugin-check/determinism_checks.h"

#include <algorithm>
#include <bit>

#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

using quant::Format;

constexpr uint32_t kTokens = 75;         // beyond one chunk of positions that an attention kernel would take
constexpr uint32_t kFirstCompared = 62;  // logits from here on are compared

// How a prompt travels: in chunks of these sizes (the last repeats), perhaps beside other sequences.
struct Journey {
  const char *name;
  std::vector<uint32_t> chunks;
  uint32_t neighbours;
};

std::vector<Journey> journeys() {
  return {{"token by token", {1}, 0},
          {"all at once", {kTokens}, 0},
          {"in uneven chunks", {7, 1, 30, 2}, 0},
          {"beside another sequence", {3, 40, 1}, 1},
          {"beside three others", {33, 8}, 3}};
}

using Bits = std::vector<uint32_t>;

// The compared logits after the journey. Neighbours take a token in each step and ask for outputs of their own.
Bits travel(Stage &stage, const Journey &journey) {
  const std::vector<int32_t> tokens = stage.tokens(kTokens);
  stage.recycle_blocks();
  Batch batch;
  for (uint32_t s = 0; s <= journey.neighbours; ++s) batch.block_table.push_back(stage.take_blocks(kTokens));
  Bits bits;
  uint32_t done = 0;
  for (uint32_t step = 0; done < kTokens; ++step) {
    const uint32_t chunk = journey.chunks[std::min<size_t>(step, journey.chunks.size() - 1)];
    const uint32_t end = std::min(done + chunk, kTokens);
    Batch part;
    part.block_table = batch.block_table;
    Outputs outputs = stage.outputs();
    for (uint32_t s = 1; s <= journey.neighbours; ++s) part.add(stage.tokens(kTokens, 7 + s)[step], step, s);
    for (; done < end; ++done) {
      if (done >= kFirstCompared) outputs.logits(part.size());
      part.add(tokens[done], done);
      if (journey.neighbours && done % 3 == 0) outputs.argmax(part.size() - 1);
    }
    stage.session.run(part, outputs);
    for (uint32_t i = 0; i < outputs.size(); ++i) {
      for (const float logit : outputs[i].logits) bits.push_back(std::bit_cast<uint32_t>(logit));
    }
  }
  return bits;
}

void expect_same_bytes(Context &context, Format format, bonsai_kv_dtype kv) {
  Stage stage(context, narrow_shape(format), {.kv = kv});
  Bits expected;
  for (const Journey &journey : journeys()) {
    const Bits bits = travel(stage, journey);
    if (expected.empty()) expected = bits;
    expect(bits == expected,
           "{}, kv {}: other bytes {} than token by token, although BONSAI_FEATURE_DETERMINISTIC is "
           "declared",
           quant::traits(format).name, kv_name(kv), journey.name);
    expect(travel(stage, journey) == bits, "{}, kv {}: other bytes when the same request is repeated {}",
           quant::traits(format).name, kv_name(kv), journey.name);
  }
}

void skip_unless_declared(Context &context) {
  context.need_sessions();
  skip_unless(context.has(BONSAI_FEATURE_DETERMINISTIC), "BONSAI_FEATURE_DETERMINISTIC is not declared");
}

// The plainest format and the first quantised one, in the first KV dtype that the backend lists.
void check_two_formats(Context &context) {
  skip_unless_declared(context);
  const bonsai_kv_dtype kv = context.info().kv_dtypes.at(0);
  expect_same_bytes(context, context.plainest_format(), kv);
  for (const Format format : {Format::kQ1_0_G128, Format::kTQ2_0_G128, Format::kQ4_0, Format::kQ8_0}) {
    if (context.multiplies(format)) return expect_same_bytes(context, format, kv);
  }
}

void check_exhaustively(Context &context, Format format) {
  skip_unless_declared(context);
  skip_unless(context.multiplies(format), "{} matrices are not claimed", quant::traits(format).name);
  for (const bonsai_kv_dtype kv : context.info().kv_dtypes) expect_same_bytes(context, format, kv);
}

}  // namespace

void add_determinism_checks(std::vector<Check> &checks) {
  checks.push_back(
      {"deterministic", "a request's bytes do not depend on its batches or its company", check_two_formats});
  for (const quant::FormatTraits &traits : quant::formats()) {
    const Format format = traits.format;
    checks.push_back({"deterministic." + std::string(traits.name) + ".exhaustive",
                      "a request's bytes do not depend on its batches or its company",
                      [format](Context &context) { check_exhaustively(context, format); }, Extent::kExhaustive});
  }
}

}  // namespace bonsai::check
