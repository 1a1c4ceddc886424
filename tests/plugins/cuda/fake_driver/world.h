// All that the fake driver knows, and the rules that every call goes through.
#pragma once

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/plugins/cuda/fake_driver/handles.h"
#include "tests/plugins/cuda/fake_driver/memory.h"
#include "tests/plugins/cuda/fake_driver/settings.h"

namespace bonsai::fake {

// Ends a call with an error that is nobody's fault.
struct Refusal {
  CUresult result;
};

// Ends a call with an error that is the caller's fault.
struct Misuse {
  CUresult result;
  std::string why;
};

// The nth of something is to fail.
struct Fault {
  uint64_t count = 0, at = 0;  // at 0: never
  CUresult result = CUDA_SUCCESS;
};

class World {
 public:
  const Settings settings = read_settings();

  std::recursive_mutex mutex;
  bool is_initialised = false;
  CUresult broken = CUDA_SUCCESS;  // what every call returns once the device is lost
  std::string misuse;              // a line each
  Fault calls, work;
  uint64_t time = 0;  // of the device: pieces of work that it has run, so that what takes longer does so in every run
  uint64_t kernels = 0, functions_asked = 0;
  bool runs_kernels = true;
  emulation::Order order = settings.order;

  std::vector<Context> contexts = std::vector<Context>(static_cast<size_t>(settings.devices));  // the primary ones
  uint64_t pushed = 0;
  bool has_failed_to_push =
      false;  // the last time, because it was to: no context is current for no fault of the caller
  Arena device_memory{256}, pinned_memory{4096};
  Table<Stream> streams;
  Table<Event> events;
  Table<Module> modules;
  Table<Function> functions;
  Table<Graph> graphs;
  Table<GraphExec> graph_execs;
  std::set<Capture *> captures;  // not ended

  // Notes what was done wrong, on stderr too.
  void blame(const std::string &what);
  // Counts one; its error if it is the one to fail.
  CUresult count(Fault &fault);
  // After some errors no call succeeds any more.
  void suffer(CUresult result);

  // What is alive, as a line; empty if nothing is.
  std::string alive() const;
  // The capture that this thread has begun, if there is one.
  Capture *capture_of_this_thread() const;
};

World &world();

// What a call may need or do.
enum : unsigned {
  kNeedsContext = 1,       // one is current
  kReleases = 2,           // does its work even when it is to fail
  kNotWhileCapturing = 4,  // allocates, frees, loads or waits
  kBeforeInit = 8,
  kWhenBroken = 16,  // succeeds when the device is lost, too
  kPushes = 32,      // makes a context current
};

// The contexts that are current on this thread, the last on top.
std::vector<Context *> &context_stack();
// The top; kNeedsContext has made sure that there is one.
Context &current_context();

// What is known of a call before its body runs: whether it runs, and what the call returns if nothing worse happens.
struct Verdict {
  bool runs;
  CUresult result;
};
Verdict before_call(World &world, const char *name, unsigned needs);
CUresult as_result(World &world, const char *name, const Misuse &misuse);

// Takes device memory away from the host again when a call is over.
class AfterCall {
 public:
  explicit AfterCall(World &world) : world_(world) {}
  ~AfterCall() {
    if (world_.is_initialised) world_.device_memory.set_accessible(false);
  }
  AfterCall(const AfterCall &) = delete;
  AfterCall &operator=(const AfterCall &) = delete;

 private:
  World &world_;
};

// Runs the body of one of the driver's functions under the rules.
template <class Body>
CUresult call(const char *name, unsigned needs, Body body) {
  World &here = world();
  const std::lock_guard lock(here.mutex);
  const Verdict verdict = before_call(here, name, needs);
  if (!verdict.runs) return verdict.result;
  const AfterCall after_call(here);
  try {
    body(here);
    return verdict.result;
  } catch (const Refusal &refusal) {
    here.suffer(refusal.result);
    return refusal.result;
  } catch (const Misuse &misuse) {
    return as_result(here, name, misuse);
  } catch (const std::bad_alloc &) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

// The object behind a handle. It must be alive and the current context's.
template <class T, class Handle>
T &find(Table<T> &table, Handle handle, const char *what) {
  if (!table.is_alive(handle)) {
    throw Misuse{CUDA_ERROR_INVALID_HANDLE,
                 fmt::format("the {} {}", what, table.was_alive(handle) ? "was destroyed before" : "is none of ours")};
  }
  T &found = *reinterpret_cast<T *>(handle);
  if (!context_stack().empty() && found.context != &current_context()) {
    throw Misuse{CUDA_ERROR_INVALID_CONTEXT, fmt::format("the {} is another context's", what)};
  }
  return found;
}

// A stream by its handle; the default stream is a misuse, because it waits for others and they for it.
Stream &find_stream(World &world, CUstream handle);

}  // namespace bonsai::fake
