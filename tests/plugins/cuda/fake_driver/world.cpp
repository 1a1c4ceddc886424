#include "tests/plugins/cuda/fake_driver/world.h"

#include <unistd.h>

#include <cstdio>

#include "tests/plugins/cuda/fake_driver/fake_cuda.h"

namespace bonsai::fake {
namespace {

constexpr int kStrictStatus = 86;

// Errors after which a context is of no use.
bool is_lasting(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

// At the program's end. It leaves nothing for others to do, so that sanitizers need not agree.
__attribute__((destructor)) void report() {
  World &here = world();
  const std::string alive = here.alive();
  if (!here.settings.is_strict || (here.misuse.empty() && alive.empty())) return;
  std::fprintf(stderr, "fake CUDA: %s%s\n", alive.empty() ? "misused, see above" : "still alive: ", alive.c_str());
  std::fflush(nullptr);
  _exit(kStrictStatus);
}

void add(std::string &text, uint64_t n, const char *what) {
  if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, what);
}

uint64_t retained(const World &world) {
  uint64_t n = 0;
  for (const Context &context : world.contexts) n += context.retained;
  return n;
}

}  // namespace

// Never destroyed: static objects of others may end after it.
World &world() {
  static World &the_world = *new World;
  return the_world;
}

void World::blame(const std::string &what) {
  misuse += what + "\n";
  std::fprintf(stderr, "fake CUDA: misuse: %s\n", what.c_str());
}

CUresult World::count(Fault &fault) {
  ++fault.count;
  if (fault.at == 0 || fault.count != fault.at) return CUDA_SUCCESS;
  suffer(fault.result);
  return fault.result;
}

void World::suffer(CUresult result) {
  if (broken == CUDA_SUCCESS && is_lasting(result)) broken = result;
}

std::string World::alive() const {
  std::string text;
  add(text, retained(*this), "contexts");
  add(text, pushed, "pushed contexts");
  add(text, device_memory.allocations(), "device allocations");
  add(text, pinned_memory.allocations(), "pinned allocations");
  add(text, streams.size(), "streams");
  add(text, events.size(), "events");
  add(text, modules.size(), "modules");
  add(text, graphs.size(), "graphs");
  add(text, graph_execs.size(), "graph execs");
  add(text, captures.size(), "captures");
  return text;
}

Capture *World::capture_of_this_thread() const {
  for (Capture *capture : captures) {
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread == std::this_thread::get_id())
      return capture;
  }
  return nullptr;
}

std::vector<Context *> &context_stack() {
  thread_local std::vector<Context *> stack;
  return stack;
}

Context &current_context() { return *context_stack().back(); }

Verdict before_call(World &world, const char *name, unsigned needs) {
  if (!world.is_initialised && !(needs & kBeforeInit)) {
    world.blame(fmt::format("{}: called before cuInit", name));
    return {false, CUDA_ERROR_NOT_INITIALIZED};
  }
  CUresult result = world.count(world.calls);
  if (result == CUDA_SUCCESS && !(needs & kWhenBroken)) result = world.broken;
  if (needs & kPushes) world.has_failed_to_push = result != CUDA_SUCCESS;
  if (result != CUDA_SUCCESS && !(needs & kReleases)) return {false, result};
  if (needs & kNeedsContext && context_stack().empty()) {
    if (world.has_failed_to_push) return {(needs & kReleases) != 0, CUDA_ERROR_INVALID_CONTEXT};
    world.blame(fmt::format("{}: no context is current", name));
    return {false, CUDA_ERROR_INVALID_CONTEXT};
  }
  Capture *capture = needs & kNotWhileCapturing ? world.capture_of_this_thread() : nullptr;
  if (!capture) return {true, result};
  capture->is_invalid = true;
  world.blame(fmt::format("{}: not allowed while this thread captures a stream", name));
  return {false, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};
}

CUresult as_result(World &world, const char *name, const Misuse &misuse) {
  world.blame(fmt::format("{}: {}", name, misuse.why));
  return misuse.result;
}

Stream &find_stream(World &world, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    throw Misuse{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "used the default stream, expected one of the caller's own"};
  }
  return find(world.streams, handle, "stream");
}

}  // namespace bonsai::fake

using bonsai::fake::world;
using bonsai::fake::World;

namespace {

void set_fault(bonsai::fake::Fault &fault, uint64_t n, int result) {
  const std::lock_guard lock(world().mutex);
  fault = {0, n, static_cast<CUresult>(result)};
}

}  // namespace

extern "C" {

void bonsai_fake_cuda_alive(bonsai_fake_cuda_alive_counts *counts) {
  World &here = world();
  const std::lock_guard lock(here.mutex);
  *counts = {
      .contexts = bonsai::fake::retained(here),
      .pushed = here.pushed,
      .device_allocations = here.device_memory.allocations(),
      .device_bytes = here.device_memory.bytes(),
      .pinned_allocations = here.pinned_memory.allocations(),
      .streams = here.streams.size(),
      .events = here.events.size(),
      .modules = here.modules.size(),
      .graphs = here.graphs.size(),
      .graph_execs = here.graph_execs.size(),
      .captures = here.captures.size(),
  };
}

const char *bonsai_fake_cuda_misuse() {
  const std::lock_guard lock(world().mutex);
  return world().misuse.c_str();
}

void bonsai_fake_cuda_fail_call(uint64_t n, int result) { set_fault(world().calls, n, result); }

void bonsai_fake_cuda_fail_work(uint64_t n, int result) { set_fault(world().work, n, result); }

uint64_t bonsai_fake_cuda_calls() { return world().calls.count; }

uint64_t bonsai_fake_cuda_work() { return world().work.count; }

uint64_t bonsai_fake_cuda_kernels() { return world().kernels; }

uint64_t bonsai_fake_cuda_functions() { return world().functions_asked; }

void bonsai_fake_cuda_set_order(uint64_t order) { world().order = bonsai::fake::order_of(order); }

void bonsai_fake_cuda_run_kernels(int run) { world().runs_kernels = run != 0; }

void bonsai_fake_cuda_reset() {
  World &here = world();
  const std::lock_guard lock(here.mutex);
  here.broken = CUDA_SUCCESS;
  here.misuse.clear();
  here.calls = here.work = {};
  here.kernels = here.functions_asked = 0;
}

}  // extern "C"
