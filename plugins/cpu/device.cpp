#include "plugins/cpu/device.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/base/available_cores.h"
#include "core/base/machine_memory.h"
#include "core/base/proc.h"
#include "core/base/runnable_threads.h"
#include "plugins/common/failure.h"
#include "plugins/common/session_config.h"
#include "plugins/common/weight_description.h"
#include "plugins/cpu/weight.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

// gemv takes its vectors in groups of this many, so that its scratch has a size.
constexpr uint32_t kGemvVectors = 64;

KernelTable kernels_for(const Options &options) {
  std::string why_not;
  const KernelTable *kernels = select_kernels(options.isa, &why_not);
  if (!kernels) reject("cpu.isa is '{}': {}", options.isa, why_not);
  KernelTable chosen = *kernels;
  chosen.prefetch = options.prefetch.value_or(best_prefetch());
  return chosen;
}

// oneTBB takes no refusal of a thread well. So what was asked for is refused here, and what nobody asked for is made do
// with.
int threads_for(int asked) {
  const int wanted = asked == 0 ? available_cores() : asked, runnable = runnable_threads(wanted);
  if (asked > runnable) {
    reject("cpu.threads is {}, and the system lets this process run no more than {} at once", asked, runnable);
  }
  return runnable;
}

std::string read_processor_name() {
  std::string name = read_proc("/proc/cpuinfo", "model name");
  return name.empty() ? "CPU" : name;
}

}  // namespace

Device::Device(const Options &options, bonsai_log_fn log, void *log_context)
    : kernels_(kernels_for(options)), mapped_(options.mapped), threads_(threads_for(options.threads)) {
  if (!log) return;
  if (threads_.count() < threads_.wanted()) {
    log(log_context, BONSAI_LOG_WARNING,
        fmt::format("cpu: oneTBB gives this process {} of {} threads, as its others are limited or left behind by a "
                    "fork",
                    threads_.count(), threads_.wanted())
            .c_str());
  }
  log(log_context, BONSAI_LOG_DEBUG,
      fmt::format("cpu: {} kernels on {} of {} cores", kernels_.name, threads_.count(), available_cores()).c_str());
}

// A quarter of the machine is left to what comes later: keys and values, and other programs.
bool Device::copies_floats(uint64_t bytes) const {
  if (mapped_ != Mapped::kAuto) return mapped_ == Mapped::kOff;
  const MachineMemory memory = machine_memory();
  return memory.free_bytes >= bytes && memory.free_bytes - bytes >= memory.total_bytes / 4;
}

ActivationRoom Device::gemv_room(uint64_t columns) const {
  KernelNeeds needs(kernels_);
  needs.abreast = {};
  return activation_room(kGemvVectors, columns, threads_.count(), needs);
}

void Device::reserve_gemv(uint64_t columns) {
  const uint64_t wanted = gemv_room(columns).bytes;
  if (gemv_activations_.size() < wanted) gemv_activations_ = Buffer<std::byte>(wanted, "activations");
}

void Device::gemv(const bonsai_gemv_args &args) {
  require_pointer(args.weight, "args->weight");
  require_pointer(args.x, "args->x");
  require_pointer(args.y, "args->y");
  const Weight &weight = *reinterpret_cast<const Weight *>(args.weight);
  check_gemv(args, weight.shape());
  const uint64_t columns = weight.shape().columns;
  const ActivationRoom room = gemv_room(columns);
  const Profile::Span span(profile_, Phase::kGemv);
  gemv_rows_.clear();
  weight.append_rows(args.first_row, args.rows, 0, gemv_rows_);
  for (uint64_t i = 0; i < args.n; i += kGemvVectors) {
    multiply(threads_, kernels_,
             {.rows = gemv_rows_,
              .columns = columns,
              .n = static_cast<uint32_t>(std::min<uint64_t>(kGemvVectors, args.n - i)),
              .x = args.x + i * columns,
              .x_stride = columns,
              .y = args.y + i * args.rows,
              .y_stride = args.rows,
              .activations = room.in(gemv_activations_.data())});
    if (profile_.is_on()) profile_.add_bytes(Phase::kGemv, bytes_of_rows(gemv_rows_));
  }
}

void describe_device(bonsai_device_info &info) {
  static const std::string name = read_processor_name();
  const MachineMemory memory = machine_memory();
  info.features =
      BONSAI_FEATURE_ADJUST | BONSAI_FEATURE_TOKEN_CHAINING | BONSAI_FEATURE_DETERMINISTIC | BONSAI_FEATURE_BORROWS;
  info.name = name.c_str();
  info.memory_total_bytes = memory.total_bytes;
  info.memory_free_bytes = memory.free_bytes;
  info.n_options = static_cast<uint32_t>(option_infos().size());
  info.options = option_infos().data();
  info.n_kv_dtypes = kKvDtypes.size();
  info.kv_dtypes = kKvDtypes.data();
  info.n_block_sizes = kBlockSizes.size();
  info.block_sizes = kBlockSizes.data();
  info.max_k = kMaxK;
}

void Device::describe(bonsai_device_status &status) const {
  const MachineMemory memory = machine_memory();
  status.threads = static_cast<uint32_t>(threads_.count());
  status.kernel = kernels_.name;
  status.weight_bytes = weight_bytes;
  status.borrowed_bytes = borrowed_bytes;
  status.session_bytes = session_bytes;
  status.memory_total_bytes = memory.total_bytes;
  status.memory_free_bytes = memory.free_bytes;
}

}  // namespace bonsai::cpu
