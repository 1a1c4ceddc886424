// bonsai-plugin-check: holds a backend against the conformance suite, each check in a process of its own.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/base/utf8.h"
#include "tools/common/program.h"
#include "tools/plugin-check/check.h"
#include "tools/plugin-check/isolated.h"

namespace po = boost::program_options;
using namespace bonsai;

namespace {

constexpr char kUsage[] =
    "[options] FILE.so\n"
    "Holds a backend against the conformance suite. Each check runs in a process of its own: one that crashes or "
    "hangs\n"
    "fails by name, and the rest goes on. Prints one line for each check and a summary; the exit code is 1 if any\n"
    "failed.\n";
constexpr int64_t kMostSeconds = 24 * 60 * 60;

po::options_description describe_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("list", "print the names of the checks and what they hold a backend to, and run none");
  add("only", po::value<std::vector<std::string>>()->default_value({}, ""),
      "the checks whose names match this pattern, * and ? allowed; may be given more than once");
  add("long", "the exhaustive checks too, which take minutes");
  add("device", po::value<int64_t>()->default_value(0), "which of the backend's devices");
  add("backend-opt", po::value<std::vector<std::string>>()->default_value({}, ""),
      "KEY=VALUE: an option for the device; may be given more than once");
  add("in-process", "no process for each check: for a debugger; the first crash ends the program");
  add("timeout", po::value<int64_t>()->default_value(120), "seconds after which a check has failed");
  return options;
}

// -------- The command line

bool matches(const std::string &pattern, const check::Check &check) {
  return fnmatch(pattern.c_str(), check.name.c_str(), FNM_NOESCAPE) == 0;
}

Result<std::vector<check::Check>> read_checks(const po::variables_map &given) {
  const auto &patterns = given["only"].as<std::vector<std::string>>();
  const bool is_long = given.count("long") > 0;
  std::vector<check::Check> all = check::all_checks(), chosen;
  for (const std::string &pattern : patterns) {
    const auto meant = [&](const check::Check &check) { return matches(pattern, check); };
    const auto found = std::find_if(all.begin(), all.end(), meant);
    if (found == all.end()) return fail("--only: no check is named {}; --list lists them", bonsai::quoted(pattern));
    const auto runs = [&](const check::Check &check) {
      return meant(check) && (is_long || check.extent == check::Extent::kQuick);
    };
    if (std::none_of(all.begin(), all.end(), runs)) {
      return fail("--only: {} means exhaustive checks, expected --long too", bonsai::quoted(pattern));
    }
  }
  for (check::Check &check : all) {
    const auto is_named = [&](const std::string &pattern) { return matches(pattern, check); };
    if (check.extent == check::Extent::kExhaustive && !is_long) continue;
    if (patterns.empty() || std::any_of(patterns.begin(), patterns.end(), is_named)) chosen.push_back(std::move(check));
  }
  return chosen;
}

Result<host::DeviceOption> read_option(const std::string &text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    return fail("--backend-opt: expected KEY=VALUE, found {}", bonsai::quoted(text));
  }
  const host::DeviceOption option = {text.substr(0, equals), text.substr(equals + 1)};
  if (option.key == "device") return fail("--backend-opt: expected --device {} instead", option.value);
  return option;
}

Result<check::Plugin> read_plugin(const po::variables_map &given) {
  check::Plugin plugin;
  plugin.path = given["plugin"].as<std::string>();
  constexpr int64_t kMostDevices = std::numeric_limits<uint32_t>::max();
  const auto device = given["device"].as<int64_t>();
  if (device < 0 || device > kMostDevices) {
    return fail("--device: expected 0 to {}, found {}", kMostDevices, device);
  }
  plugin.device = static_cast<uint32_t>(device);
  for (const std::string &text : given["backend-opt"].as<std::vector<std::string>>()) {
    const auto option = read_option(text);
    if (!option) return tl::unexpected(option.error());
    plugin.options.push_back(*option);
  }
  return plugin;
}

Result<check::Isolation> read_isolation(const po::variables_map &given) {
  const auto seconds = given["timeout"].as<int64_t>();
  if (seconds < 1 || seconds > kMostSeconds) {
    return fail("--timeout: expected 1 to {} seconds, found {}", kMostSeconds, seconds);
  }
  return check::Isolation{std::chrono::seconds(seconds), [] { return !tools::interrupted(); }};
}

// -------- What is printed

// One line, at once: a person waits for it. The exit code tells the rest.
void print_line(const std::string &text) { tools::print(printable(text) + '\n'); }

void print_finding(const check::Finding &finding) {
  switch (finding.verdict) {
    case check::Verdict::kPassed:
      return print_line("ok " + finding.check);
    case check::Verdict::kFailed:
      return print_line(fmt::format("FAILED {}: {}", finding.check, finding.why));
    case check::Verdict::kSkipped:
      return print_line(fmt::format("skipped {}: {}", finding.check, finding.why));
  }
}

void list(const std::vector<check::Check> &checks) {
  size_t width = 0;
  for (const check::Check &check : checks) width = std::max(width, check.name.size());
  for (const check::Check &check : checks) print_line(fmt::format("{:<{}}  {}", check.name, width, check.promise));
}

// -------- The checks

int run_all(const tools::Program &program, const std::vector<check::Check> &checks, const check::Plugin &plugin,
            const check::Isolation &isolation, bool in_process) {
  const auto described = check::examine(plugin, isolation);
  if (tools::interrupted()) return tools::report(program, {"interrupted"}, tools::kFailure);
  if (!described) return tools::report(program, described.error(), tools::kFailure);
  int n_passed = 0, n_failed = 0, n_skipped = 0;
  for (const check::Check &check : checks) {
    const check::Finding finding =
        in_process ? check::run(check, plugin) : check::run_isolated(check, plugin, isolation);
    if (tools::interrupted()) return tools::report(program, {"interrupted"}, tools::kFailure);
    print_finding(finding);
    n_passed += finding.verdict == check::Verdict::kPassed;
    n_failed += finding.verdict == check::Verdict::kFailed;
    n_skipped += finding.verdict == check::Verdict::kSkipped;
  }
  print_line(fmt::format("{} ({}): {} ok, {} failed, {} skipped", plugin.path.string(), *described, n_passed, n_failed,
                         n_skipped));
  return n_failed == 0 ? 0 : tools::kFailure;
}

int run(const tools::Program &program, const po::variables_map &given) {
  const auto checks = read_checks(given);
  if (!checks) return tools::report(program, checks.error(), tools::kUsage);
  if (given.count("list")) {
    list(*checks);
    return 0;
  }
  const auto plugin = read_plugin(given);
  if (!plugin) return tools::report(program, plugin.error(), tools::kUsage);
  const auto isolation = read_isolation(given);
  if (!isolation) return tools::report(program, isolation.error(), tools::kUsage);
  return run_all(program, *checks, *plugin, *isolation, given.count("in-process") > 0);
}

}  // namespace

int main(int argc, char **argv) {
  tools::Program program;
  program.name = "bonsai-plugin-check";
  program.usage = kUsage;
  program.files = {"plugin"};
  program.files_expected = "expected the shared object to check";
  program.without_files = "list";
  program.describe = describe_options;
  program.run = run;
  return tools::run_program(program, argc, argv);
}
