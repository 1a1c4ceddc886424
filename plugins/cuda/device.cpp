#include "plugins/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "plugins/common/session_config.h"
#include "plugins/common/weight_description.h"
#include "plugins/cuda/packing.h"
#include "plugins/cuda/weight.h"

namespace bonsai::cuda {
namespace {

// gemv takes its vectors in groups of this many, so that its scratch has a size.
constexpr uint32_t kGemvVectors = 64;

// NVRTC of this process, looked for once, as the platform is.
NvrtcSearch &installed_nvrtc() {
  static NvrtcSearch search(nvrtc_candidates(platform().driver->version()));
  return search;
}

LibraryConfig library_config(const DeviceDescription &description, const Options &options, const Log &log) {
  std::string directory =
      kernel_cache_directory(options.kernel_cache, std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"));
  if (directory.empty() && options.kernel_cache != "off" && log) {
    log(BONSAI_LOG_WARNING,
        "cuda: kernels are compiled at every start, as neither XDG_CACHE_HOME nor HOME says where to keep them "
        "(cuda.kernel_cache=DIR does)");
  }
  return {.capability = description.capability,
          .nvrtc = installed_nvrtc().loaded(),
          .proved_nvrtc = [] { return installed_nvrtc().proved(); },
          .cache_directory = std::move(directory),
          .log = log};
}

// Makes a buffer hold at least `bytes`; what it held is lost.
void grow(DeviceBuffer &buffer, const Stream &stream, size_t bytes) {
  if (buffer.bytes() >= bytes) return;
  buffer = DeviceBuffer();  // first: both at once may not fit
  buffer = DeviceBuffer(stream.context(), bytes, "vectors");
  stream.fill(buffer.data(), 0, bytes);  // products read records of vectors that are not there
}

std::vector<std::string> all_units() {
  std::vector<std::string> names;
  for (const Unit &unit : units()) names.push_back(unit.name);
  return names;
}

// The profile, after what was submitted before has run, so that a span does not measure it.
Profile &settled_profile(Device &device) {
  if (device.profile().is_on()) device.stream().synchronize();
  return device.profile();
}

// A stream is made in a context that is current.
Stream make_stream(const Context &context) {
  const CurrentContext current(context);
  return Stream(context);
}

}  // namespace

Device::Device(const DeviceDescription &description, const Options &options, Log log)
    : description_(description),
      options_(options),
      overlaps_(options.overlap && description.capability >= kWaitingCapability),
      log_(std::move(log)),
      context_(platform().driver, description.handle),
      stream_(make_stream(context_)),
      library_(context_, library_config(description, options, log_)),
      uploader_(context_, stream_) {
  const std::string &left_out = platform().left_out;
  if (log_ && !left_out.empty()) {
    log_(BONSAI_LOG_INFO, fmt::format("cuda: devices are numbered without those that cannot be used: {}", left_out));
  }
  if (!options_.warm) return;
  const CurrentContext current(context_);
  library_.prepare(all_units());
}

Device::~Device() = default;

MatmulDevice Device::matmul_device() const {
  return {.multiprocessors = static_cast<uint32_t>(description_.multiprocessors),
          .has_bit_mma = description_.capability >= kBitMmaCapability && description_.capability < 100};
}

bool Device::stop_overlap(const std::string &why) {
  if (!std::exchange(overlaps_, false)) return false;
  if (log_) log_(BONSAI_LOG_WARNING, fmt::format("cuda: kernels do not overlap from now on: {}", why));
  return true;
}

// A kernel that may be launched with this much dynamic shared memory.
Function &Device::ready_function(const std::string &unit, const std::string &kernel, unsigned shared_bytes) {
  Function &function = library_.function(unit, kernel);
  if (shared_bytes + function.shared_bytes() > kPlainSharedBytes) function.allow_shared_bytes(shared_bytes);
  return function;
}

void Device::describe(bonsai_device_status &status) const {
  const CurrentContext current(context_);
  const Context::Memory memory = context_.memory();
  status.threads = 0;
  status.kernel = library_.architecture().name.c_str();
  status.weight_bytes = weight_bytes;
  status.borrowed_bytes = 0;
  status.session_bytes = session_bytes;
  status.memory_total_bytes = memory.total_bytes;
  status.memory_free_bytes = memory.free_bytes;
}

void Device::synchronize() {
  const CurrentContext current(context_);
  stream_.synchronize();
}

void Device::profile(bonsai_profile_action action, bonsai_profile *profile) {
  synchronize();
  profile_.apply(action, profile);
}

void Device::gemv(const bonsai_gemv_args &args) {
  require_pointer(args.weight, "args->weight");
  require_pointer(args.x, "args->x");
  require_pointer(args.y, "args->y");
  const Weight &weight = *reinterpret_cast<const Weight *>(args.weight);
  check_gemv(args, weight.shape());
  const CurrentContext current(context_);
  const DeviceSpan span(*this, Phase::kGemv);
  gemv_rows_.clear();
  weight.append_rows(args.first_row, args.rows, 0, gemv_rows_);
  for (uint32_t i = 0; i < args.n; i += kGemvVectors) {
    run_to_end(stream_, [&] { multiply_vectors(args, i); });
    if (profile_.is_on()) profile_.add_bytes(Phase::kGemv, bytes_of_rows(gemv_rows_));
  }
}

// The gemv's vectors from `first` on, as many as the scratch takes.
void Device::multiply_vectors(const bonsai_gemv_args &args, uint32_t first) {
  const uint64_t columns = reinterpret_cast<const Weight *>(args.weight)->shape().columns;
  const uint64_t n = std::min(kGemvVectors, args.n - first);
  const ActivationForms forms = forms_for(gemv_rows_, n, matmul_device());
  grow(gemv_.x, stream_, n * columns * sizeof(float));
  grow(gemv_.y, stream_, n * args.rows * sizeof(float));
  grow(gemv_.activations, stream_, packed_activation_bytes(forms, n, columns));
  stream_.upload(gemv_.x.data(), args.x + first * columns, n * columns * sizeof(float));
  const PackedActivations activations = place_activations(forms, gemv_.activations.as<std::byte>(), n, columns);
  pack_rows(*this, {.x = gemv_.x.as<float>(), .n = n, .columns = columns, .forms = forms, .to = activations});
  multiply(*this, {.rows = gemv_rows_,
                   .activations = activations,
                   .n = n,
                   .bias = nullptr,
                   .y = gemv_.y.as<float>(),
                   .y_stride = args.rows,
                   .add = false});
  stream_.download(args.y + first * args.rows, gemv_.y.data(), n * args.rows * sizeof(float));
}

DeviceSpan::DeviceSpan(Device &device, Phase phase) : device_(device), span_(settled_profile(device), phase) {}

DeviceSpan::~DeviceSpan() {
  if (!device_.profile().is_on()) return;
  try {
    device_.stream().synchronize();
  } catch (const Failure &) {
    // What failed in the stream fails again in the call that waits for its results.
  }
}

const std::string &why_no_devices() {
  static const std::string why = [] {
    std::string reason = platform().reason;
    for (const DeviceDescription &device : platform().devices) {
      reason = why_no_kernels(library_config(device, {}, {}));
      if (reason.empty()) break;
    }
    return reason;
  }();
  return why;
}

void describe_device(uint32_t index, bonsai_device_info &info) {
  const DeviceDescription &device = platform().devices[index];
  info.features = BONSAI_FEATURE_ADJUST | BONSAI_FEATURE_TOKEN_CHAINING | BONSAI_FEATURE_DETERMINISTIC;
  info.name = device.name.c_str();
  info.memory_total_bytes = device.memory_bytes;
  info.memory_free_bytes = 0;  // to be known, the device has to be opened
  info.n_options = static_cast<uint32_t>(option_infos().size());
  info.options = option_infos().data();
  info.n_kv_dtypes = kKvDtypes.size();
  info.kv_dtypes = kKvDtypes.data();
  info.n_block_sizes = kBlockSizes.size();
  info.block_sizes = kBlockSizes.data();
  info.max_k = kMaxK;
}

Log log_of(const bonsai_device_config &config) {
  if (!config.log) return {};
  return [log = config.log, context = config.log_context](bonsai_log_level level, const std::string &line) {
    log(context, level, line.c_str());
  };
}

}  // namespace bonsai::cuda
