#include "tests/plugins/cuda/fake_driver/work.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace bonsai::fake {
namespace {

void require_device(const World &world, const char *what, const void *address, size_t bytes) {
  const std::string problem = world.device_memory.problem_of(address, bytes);
  if (problem.empty()) return;
  throw Misuse{CUDA_ERROR_INVALID_VALUE,
               fmt::format("{} bytes of device memory are the {}, which {}", bytes, what, problem)};
}

void require_host(const World &world, const char *what, const void *address, size_t bytes) {
  if (!address) throw Misuse{CUDA_ERROR_INVALID_VALUE, fmt::format("the {} is NULL", what)};
  if (world.device_memory.overlaps(address, bytes)) {
    throw Misuse{CUDA_ERROR_INVALID_VALUE, fmt::format("the {} is device memory, expected the host's", what)};
  }
  if (!world.pinned_memory.overlaps(address, bytes)) return;
  const std::string problem = world.pinned_memory.problem_of(address, bytes);
  if (problem.empty()) return;
  throw Misuse{CUDA_ERROR_INVALID_VALUE,
               fmt::format("{} bytes of pinned memory are the {}, which {}", bytes, what, problem)};
}

bool is_mapped(uintptr_t address) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return msync(reinterpret_cast<void *>(address / page * page), page, MS_ASYNC) == 0;
}

// Whether a sanitizer keeps notes there: two small numbers side by side, as 1,024 rows behind a token 0, may be an
// address of these. Not known of ThreadSanitizer's, whose take most of such addresses.
bool is_shadow([[maybe_unused]] uintptr_t address) {
#if defined(__SANITIZE_ADDRESS__)
  std::array<char, 1> name;
  void *region;
  size_t bytes;
  const char *kind =
      __asan_locate_address(reinterpret_cast<void *>(address), name.data(), name.size(), &region, &bytes);
  return std::strstr(kind, "shadow") != nullptr;
#elif defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

// A device cannot follow the host's pointers. Whatever looks like one among the arguments is one: padding is zeros.
void require_device_pointers(const World &world, const Work &work) {
  constexpr uintptr_t kLeast = uintptr_t{1} << 32, kMost = uintptr_t{1} << 47;
  for (size_t at = 0; at + sizeof(uintptr_t) <= work.arguments.size(); at += sizeof(uintptr_t)) {
    uintptr_t address;
    std::memcpy(&address, work.arguments.data() + at, sizeof address);
    const auto *pointer = reinterpret_cast<const void *>(address);
    if (address < kLeast || address >= kMost) continue;
    if (world.device_memory.problem_of(pointer, 0).empty() || world.pinned_memory.overlaps(pointer, 1)) continue;
    if (world.device_memory.problem_of(pointer, 1) == "was freed before") {
      throw Misuse{CUDA_ERROR_ILLEGAL_ADDRESS, fmt::format("kernel {} is given freed device memory at byte {} of its "
                                                           "arguments",
                                                           work.function->kernel->name, at)};
    }
    if (!is_mapped(address) || is_shadow(address)) continue;
    throw Misuse{CUDA_ERROR_ILLEGAL_ADDRESS, fmt::format("kernel {} is given the host's memory at byte {} of its "
                                                         "arguments, expected the device's",
                                                         work.function->kernel->name, at)};
  }
}

void run_kernel(World &world, const Work &work) {
  ++world.kernels;
  try {
    if (!world.modules.is_alive(work.function->module)) {
      throw Misuse{CUDA_ERROR_ILLEGAL_ADDRESS,
                   fmt::format("kernel {} runs, but its module was unloaded", work.function->kernel->name)};
    }
    require_device_pointers(world, work);
    if (!world.runs_kernels) return;
    emulation::launch(*work.function->kernel, world.order, work.grid, work.block_threads, work.shared_bytes,
                      work.arguments.data());
  } catch (const Misuse &misuse) {
    world.blame(misuse.why);
    throw Refusal{misuse.result};
  } catch (const emulation::Failure &failure) {
    world.blame(failure.what());
    throw Refusal{CUDA_ERROR_LAUNCH_FAILED};
  }
}

void run(World &world, const Work &work) {
  if (world.broken != CUDA_SUCCESS) throw Refusal{world.broken};
  const CUresult counted = world.count(world.work);
  if (counted != CUDA_SUCCESS) throw Refusal{counted};
  ++world.time;
  world.device_memory.set_accessible(true);  // until the call is over
  if (work.kind == Work::Kind::kKernel) return run_kernel(world, work);
  try {
    check_addresses(world, work);  // once more: it may have been freed since
  } catch (const Misuse &misuse) {
    world.blame("a stream's work: " + misuse.why);
    throw Refusal{CUDA_ERROR_ILLEGAL_ADDRESS};
  }
  if (work.kind == Work::Kind::kFill) {
    std::memset(work.to, work.value, work.bytes);
  } else {
    std::memmove(work.to, work.from, work.bytes);
  }
}

void run(World &world, const Record &record) { record.event->reached = world.time; }

// Outside a capture.
template <class Item>
void enqueue(World &world, Stream &stream, Item item) {
  stream.pending.emplace_back(std::move(item));
  ++stream.submitted;
  if (world.settings.is_eager) run_until(world, stream, stream.submitted);
}

}  // namespace

void check_addresses(const World &world, const Work &work) {
  if (work.bytes == 0) return;
  switch (work.kind) {
    case Work::Kind::kUpload:
      require_device(world, "destination", work.to, work.bytes);
      require_host(world, "source", work.from, work.bytes);
      break;
    case Work::Kind::kDownload:
      require_host(world, "destination", work.to, work.bytes);
      require_device(world, "source", work.from, work.bytes);
      break;
    case Work::Kind::kCopy:
      require_device(world, "destination", work.to, work.bytes);
      require_device(world, "source", work.from, work.bytes);
      if (static_cast<const std::byte *>(work.to) < static_cast<const std::byte *>(work.from) + work.bytes &&
          static_cast<const std::byte *>(work.from) < static_cast<const std::byte *>(work.to) + work.bytes) {
        throw Misuse{CUDA_ERROR_INVALID_VALUE, "source and destination of a copy overlap"};
      }
      break;
    case Work::Kind::kFill:
      require_device(world, "destination", work.to, work.bytes);
      break;
    case Work::Kind::kKernel:
      break;
  }
}

void submit(World &world, Stream &stream, Work work) {
  if (!stream.capture) return enqueue(world, stream, std::move(work));
  if (stream.capture->is_invalid) throw Refusal{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED};
  stream.capture->work.push_back(std::move(work));
}

void submit(World &world, Stream &stream, Record record) {
  Event &event = *record.event;
  event.stream = &stream;
  event.capture = stream.capture;
  if (stream.capture) return;
  event.position = stream.submitted + 1;
  enqueue(world, stream, record);
}

void run_until(World &world, Stream &stream, uint64_t position) {
  while (stream.done < position && !stream.pending.empty()) {
    const auto item = std::move(stream.pending.front());
    stream.pending.pop_front();
    ++stream.done;
    std::visit([&](const auto &one) { run(world, one); }, item);
  }
}

void run_all(World &world, const Context &context) {
  world.streams.for_each([&](Stream &stream) {
    if (stream.context == &context) run_until(world, stream, stream.submitted);
  });
}

}  // namespace bonsai::fake
