#include "tools/plugin-check/profile_checks.h"

#include <chrono>
#include <cmath>
#include <map>
#include <string>

#include "tools/plugin-check/matrix.h"
#include "tools/plugin-check/product.h"
#include "tools/plugin-check/refusal.h"
#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

// Calls of each phase, by name. Fails on phases that say nothing, or more than the time that has passed.
std::map<std::string, uint64_t> read_phases(const bonsai_profile &profile, double passed_seconds) {
  std::map<std::string, uint64_t> calls;
  double seconds = 0;
  for (uint32_t i = 0; i < profile.n_phases; ++i) {
    const bonsai_profile_phase &phase = *profile.phases[i];
    expect(phase.struct_size >= sizeof phase, "profile: a phase has a struct_size of {}", phase.struct_size);
    expect(phase.name && *phase.name, "profile: phase {} has no name", i);
    expect(std::isfinite(phase.seconds) && phase.seconds >= 0, "profile: {} took {} seconds", phase.name,
           phase.seconds);
    expect(phase.calls > 0, "profile: {} never ran, expected only phases that did", phase.name);
    expect(calls.emplace(phase.name, phase.calls).second, "profile: {} occurs twice", phase.name);
    seconds += phase.seconds;
  }
  expect(seconds <= passed_seconds, "profile: all phases took {} seconds, but only {} passed", seconds, passed_seconds);
  return calls;
}

class Profiler {
 public:
  explicit Profiler(Context &context) : context_(context) {}

  std::map<std::string, uint64_t> act(bonsai_profile_action action) {
    const auto now = std::chrono::steady_clock::now();
    bonsai_profile profile{};
    profile.struct_size = sizeof profile;
    bonsai_error error = empty_error();
    expect_ok("profile", context_.api().profile(context_.device().handle(), action, &profile, &error), error);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    if (action == BONSAI_PROFILE_START) begin_ = now;
    return read_phases(profile, passed.count());
  }

 private:
  Context &context_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Nothing before the start; what ran between start and stop; nothing more after.
void check_profile(Context &context) {
  skip_unless(context.api().profile != nullptr, "profile is not offered");
  Random random(1);
  const Matrix matrix = make_matrix(context.plainest_format(), 64, 256, Pattern::kRandom, random);
  const host::Weight::Part part = {static_cast<bonsai_dtype>(matrix.format), matrix.rows, matrix.blocks()};
  const host::Weight weight = value_if_served(
      host::Weight::upload(context.device(), "w", matrix.columns, {&part, 1}, BONSAI_USE_MATRIX, false));
  const std::vector<float> x(matrix.columns, 1.0f);
  Profiler profiler(context);
  product(context.device(), weight, matrix.rows, x);
  expect(profiler.act(BONSAI_PROFILE_READ).empty(), "profile: something was measured before BONSAI_PROFILE_START");
  profiler.act(BONSAI_PROFILE_START);
  for (int i = 0; i < 3; ++i) product(context.device(), weight, matrix.rows, x);
  const auto measured = profiler.act(BONSAI_PROFILE_STOP);
  const auto gemv = measured.find("gemv");
  expect(gemv != measured.end() && gemv->second == 3, "profile: gemv ran 3 times, but {} were measured",
         gemv == measured.end() ? 0 : gemv->second);
  product(context.device(), weight, matrix.rows, x);
  expect(profiler.act(BONSAI_PROFILE_READ) == measured, "profile: something was measured after BONSAI_PROFILE_STOP");
  profiler.act(BONSAI_PROFILE_START);
  expect(profiler.act(BONSAI_PROFILE_STOP).empty(), "profile: BONSAI_PROFILE_START does not forget");
}

// The same of a session's work: a prompt and a step behind it.
void check_passes(Context &context) {
  skip_unless(context.api().profile != nullptr, "profile is not offered");
  context.need_sessions();
  constexpr uint32_t kPrompt = 20;
  Stage stage(context, narrow_shape(context.plainest_format()));
  const std::vector<int32_t> tokens = stage.tokens(kPrompt + 1);
  const std::vector<uint32_t> blocks = stage.take_blocks(kPrompt + 1);
  const auto run = [&] {
    stage.session.logits(std::span(tokens).first(kPrompt), 0, blocks);
    stage.session.logits(std::span(tokens).subspan(kPrompt), kPrompt, blocks);
  };
  Profiler profiler(context);
  run();
  expect(profiler.act(BONSAI_PROFILE_READ).empty(), "profile: something was measured before BONSAI_PROFILE_START");
  profiler.act(BONSAI_PROFILE_START);
  run();
  auto measured = profiler.act(BONSAI_PROFILE_STOP);
  run();
  expect(profiler.act(BONSAI_PROFILE_READ) == measured, "profile: something was measured after BONSAI_PROFILE_STOP");
  measured.erase("gemv");  // which is of calls of that name, and no work of a pass
  expect(!measured.empty(), "profile: a prompt and a step ran, but no phase of theirs was measured");
}

void check_bad_calls(Context &context) {
  skip_unless(context.api().profile != nullptr, "profile is not offered");
  expect_refused("profile of no device", Expected::kInvalid, [&](bonsai_error *error) {
    return context.api().profile(nullptr, BONSAI_PROFILE_READ, nullptr, error);
  });
  expect_refused("profile with an unknown action", Expected::kUnsupported, [&](bonsai_error *error) {
    return context.api().profile(context.device().handle(), 77, nullptr, error);
  });
  bonsai_error error = empty_error();
  expect_ok("profile without a place to write to",
            context.api().profile(context.device().handle(), BONSAI_PROFILE_READ, nullptr, &error), error);
}

}  // namespace

void add_profile_checks(std::vector<Check> &checks) {
  checks.push_back({"profile", "what ran between start and stop is measured, and nothing else", check_profile});
  checks.push_back({"profile.passes",
                    "phases of a session's prompt and step are measured between start and stop, and nothing else is",
                    check_passes});
  checks.push_back({"arguments.profile", "bad calls of profile are refused", check_bad_calls});
}

}  // namespace bonsai::check
