// An open device: threads, the kernels that were chosen, and the count of what memory is in use.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/common/buffer.h"
#include "plugins/common/profile.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/matmul.h"
#include "plugins/cpu/options.h"
#include "plugins/cpu/slabs.h"
#include "plugins/cpu/threads.h"

namespace bonsai::cpu {

using namespace plugin;

class Device {
 public:
  // Throws BONSAI_INVALID_ARGUMENT for an instruction set that does not exist or that this machine lacks.
  Device(const Options &options, bonsai_log_fn log, void *log_context);

  Threads &threads() { return threads_; }
  const Threads &threads() const { return threads_; }
  const KernelTable &kernels() const { return kernels_; }
  Profile &profile() { return profile_; }
  Slabs &slabs() { return slabs_; }

  // Whether so many bytes of floats that could be read where the caller has them are copied, as huge pages are read
  // faster.
  bool copies_floats(uint64_t bytes) const;

  // What device_status says.
  void describe(bonsai_device_status &status) const;
  // Every call has run when it returns.
  void synchronize() {}
  void profile(bonsai_profile_action action, bonsai_profile *profile) { profile_.apply(action, profile); }

  // y = W x for n vectors. Checks its arguments; throws BONSAI_INVALID_ARGUMENT.
  void gemv(const bonsai_gemv_args &args);
  // Makes room for gemv over matrices of this many columns, so that gemv itself need not.
  ActivationRoom gemv_room(uint64_t columns) const;
  void reserve_gemv(uint64_t columns);

  uint64_t weight_bytes = 0;    // of live weights, without borrowed memory
  uint64_t borrowed_bytes = 0;  // that live weights point into
  uint64_t session_bytes = 0;   // of live sessions

 private:
  KernelTable kernels_;
  Mapped mapped_;
  Threads threads_;
  Profile profile_;
  Slabs slabs_;
  Buffer<std::byte> gemv_activations_;
  std::vector<MatrixRows> gemv_rows_;
};

// What device_info says.
void describe_device(bonsai_device_info &info);

}  // namespace bonsai::cpu
