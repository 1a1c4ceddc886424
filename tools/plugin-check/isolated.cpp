#include "tools/plugin-check/isolated.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "tools/plugin-check/call_trace.h"
#include "tools/plugin-check/context.h"

namespace bonsai::check {
namespace {

constexpr size_t kMaxWhyBytes = 4096;
constexpr std::chrono::milliseconds kLook{2};  // how often the child is looked at: a quick check takes some ten

// What the child leaves for its parent.
struct Report {
  CallTrace trace;
  std::atomic<bool> is_finished = false;  // and the rest is written
  Verdict verdict = Verdict::kFailed;
  char why[kMaxWhyBytes] = {};

  void finish(const Finding &finding) {
    verdict = finding.verdict;
    finding.why.copy(why, sizeof why - 1);
    is_finished = true;
  }
};

struct Unmap {
  void operator()(Report *report) const { munmap(report, sizeof *report); }
};
using SharedReport = std::unique_ptr<Report, Unmap>;

SharedReport make_report() {
  void *memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return SharedReport(new (memory) Report);
}

using Work = std::function<Finding()>;

// The child's life. It ends as a program does, so that a plugin that does not survive the end is found out.
[[noreturn]] void live(pid_t parent, const Work &work, Report &report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // when the parent is killed, nobody else ends a check that hangs
  if (getppid() != parent) _exit(EXIT_FAILURE);
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    // The parent only makes a note of these; what its caller ignores stays ignored.
    if (signal(signal_number, SIG_DFL) == SIG_IGN) signal(signal_number, SIG_IGN);
  }
  dup2(STDERR_FILENO, STDOUT_FILENO);  // a plugin that prints does not do so between the lines of the findings
  trace_calls(report.trace);
  report.finish(work());
  std::exit(EXIT_SUCCESS);
}

// How the child ended; nullopt: it had to be ended.
std::optional<int> wait_for(pid_t child, const Isolation &isolation) {
  const auto deadline = std::chrono::steady_clock::now() + isolation.limit;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (!isolation.go_on() || std::chrono::steady_clock::now() >= deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return std::nullopt;
    }
    std::this_thread::sleep_for(kLook);
  }
  return status;
}

std::string signal_name(int signal_number) {
  const char *name = sigabbrev_np(signal_number);
  if (!name) return fmt::format("signal {}", signal_number);
  return fmt::format("SIG{} ({})", name, sigdescr_np(signal_number));
}

std::string where(const Report &report) {
  const char *function = report.trace.function;
  if (report.is_finished) return "when the process ended, after all calls";
  if (!function) return "while the library was loaded";
  if (report.trace.n_under_way == 0) return fmt::format("after {} had returned", function);
  const char *about = report.trace.about;
  return *about == '\0' ? fmt::format("in {}", function) : fmt::format("in {}: {}", function, about);
}

// What is wrong with the child's end; empty: nothing.
std::string fault_of(std::optional<int> status, const Report &report, const Isolation &isolation) {
  if (!status) return fmt::format("no end within {} s, {}", isolation.limit.count(), where(report));
  if (WIFSIGNALED(*status)) return fmt::format("{} {}", signal_name(WTERMSIG(*status)), where(report));
  const int code = WEXITSTATUS(*status);
  if (report.is_finished && code == EXIT_SUCCESS) return {};
  return fmt::format("exit code {} {}, expected a plugin that leaves the process alone", code, where(report));
}

// `work` in a process of its own.
Finding isolate(const std::string &name, const Isolation &isolation, const Work &work) {
  const SharedReport report = make_report();
  std::fflush(nullptr);      // else the child prints it again
  signal(SIGCHLD, SIG_DFL);  // a caller may have left it ignored, and then nobody learns how a child ended
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return {name, Verdict::kFailed, fmt::format("no process for the check: {}", strerror(errno))};
  if (child == 0) live(parent, work, *report);
  const std::string fault = fault_of(wait_for(child, isolation), *report, isolation);
  if (fault.empty()) return {name, report->verdict, report->why};
  if (report->is_finished && report->verdict == Verdict::kFailed) {
    return {name, Verdict::kFailed, fmt::format("{}; then {}", report->why, fault)};
  }
  return {name, Verdict::kFailed, fault};
}

}  // namespace

Finding run_isolated(const Check &check, const Plugin &plugin, const Isolation &isolation) {
  return isolate(check.name, isolation, [&] { return run(check, plugin); });
}

Result<std::string> examine(const Plugin &plugin, const Isolation &isolation) {
  std::string described;
  const Check check = {"", "", [&](Context &context) {
                         const host::Backend &backend = context.device().backend();
                         described = fmt::format("{} {}, level {}", backend.name(), backend.version(), backend.level());
                       }};
  const Finding finding = isolate("", isolation, [&] {
    const Finding opened = run(check, plugin);
    return opened.verdict == Verdict::kPassed ? Finding{"", Verdict::kPassed, described} : opened;
  });
  if (finding.verdict == Verdict::kPassed) return finding.why;
  // The child names the path itself, unless it came to no end.
  const std::string path = plugin.path.string() + ": ";
  return fail("{}{}", finding.why.starts_with(path) ? "" : path, finding.why);
}

}  // namespace bonsai::check
