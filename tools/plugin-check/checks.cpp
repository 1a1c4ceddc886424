#include "tools/plugin-check/check.h"
#include "tools/plugin-check/context.h"
#include "tools/plugin-check/forward_checks.h"
#include "tools/plugin-check/gemv_checks.h"
#include "tools/plugin-check/kv_checks.h"
#include "tools/plugin-check/output_checks.h"

namespace bonsai::check {

std::vector<Check> all_checks() {
  std::vector<Check> checks;
  add_gemv_checks(checks);
  add_forward_checks(checks);
  add_kv_checks(checks);
  add_output_checks(checks);
  return checks;
}

Finding run(const Check &check, const Plugin &plugin) {
  try {
    Context context(plugin);
    check.run(context);
    return {check.name, Verdict::kPassed, {}};
  } catch (const Skipped &skipped) {
    return {check.name, Verdict::kSkipped, skipped.what()};
  } catch (const std::exception &fault) {
    return {check.name, Verdict::kFailed, fault.what()};
  }
}

}  // namespace bonsai::check
