#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "core/base/utf8.h"
#include "tools/plugin-check/argument_checks.h"
#include "tools/plugin-check/chaining_checks.h"
#include "tools/plugin-check/check.h"
#include "tools/plugin-check/context.h"
#include "tools/plugin-check/creation_argument_checks.h"
#include "tools/plugin-check/determinism_checks.h"
#include "tools/plugin-check/environment.h"
#include "tools/plugin-check/forward_checks.h"
#include "tools/plugin-check/gemv_checks.h"
#include "tools/plugin-check/isolation_checks.h"
#include "tools/plugin-check/kv_checks.h"
#include "tools/plugin-check/layer_checks.h"
#include "tools/plugin-check/lifetime_checks.h"
#include "tools/plugin-check/output_checks.h"
#include "tools/plugin-check/printed.h"
#include "tools/plugin-check/profile_checks.h"
#include "tools/plugin-check/session_argument_checks.h"
#include "tools/plugin-check/struct_checks.h"

namespace bonsai::check {

namespace {

// Runs every check of refused calls once more and looks only at what is printed: what else is wrong they have said
// themselves. It is a check of its own because output is captured here, and what a sanitizer prints of a crash in one
// of them must be seen.
Check silence_of_refusals(const std::vector<Check> &checks) {
  std::vector<Check> refusals;
  std::ranges::copy_if(checks, std::back_inserter(refusals),
                       [](const Check &check) { return check.name.starts_with("arguments."); });
  const auto run_all = [refusals](Context &context) {
    for (const Check &check : refusals) {
      try {
        check.run(context);
      } catch (const std::runtime_error &) {
      }
    }
  };
  return {.name = "arguments.silence",
          .promise = "nothing is printed about refused calls",
          .run = run_all,
          .wants_silence = true};
}

}  // namespace

std::vector<Check> all_checks() {
  std::vector<Check> checks;
  add_argument_checks(checks);
  add_gemv_checks(checks);
  add_layer_checks(checks);
  add_forward_checks(checks);
  add_kv_checks(checks);
  add_output_checks(checks);
  add_chaining_checks(checks);
  // What is wrong already by itself would be blamed on these: on a refused call, or a longer struct, ahead of it.
  add_creation_argument_checks(checks);
  add_session_argument_checks(checks);
  add_struct_checks(checks);
  add_determinism_checks(checks);
  add_isolation_checks(checks);
  add_lifetime_checks(checks);
  add_profile_checks(checks);
  checks.push_back(silence_of_refusals(checks));
  return checks;
}

namespace {

void run_once(const Check &check, const Plugin &plugin) {
  Context context(plugin);
  check.run(context);
}

void run_in_silence(const Check &check, const Plugin &plugin) {
  std::string text;
  {
    const Printed printed;
    run_once(check, plugin);
    text = printed.text();
  }
  expect(text.empty(), "the backend prints {}, expected silence: text goes to the log", bonsai::quoted(text));
}

Finding run_to_end(const Check &check, const Plugin &plugin) {
  try {
    if (check.wants_silence)
      run_in_silence(check, plugin);
    else
      run_once(check, plugin);
    return {check.name, Verdict::kPassed, {}};
  } catch (const Skipped &skipped) {
    return {check.name, Verdict::kSkipped, skipped.what()};
  } catch (const std::exception &fault) {
    return {check.name, Verdict::kFailed, fault.what()};
  }
}

}  // namespace

// Whatever is checked, its calls leave the floating-point environment as it was, down to those that end the device.
Finding run(const Check &check, const Plugin &plugin) {
  Finding finding = run_to_end(check, plugin);
  const std::string fault = take_environment_fault();
  if (fault.empty()) return finding;
  const bool failed_before = finding.verdict == Verdict::kFailed;
  return {check.name, Verdict::kFailed, failed_before ? finding.why + "; " + fault : fault};
}

}  // namespace bonsai::check
