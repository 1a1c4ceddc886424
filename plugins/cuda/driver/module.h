// Code on the device: modules, their functions, and launching them. Calls need the context to be current.
#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include "plugins/cuda/driver/stream.h"

namespace bonsai::cuda {

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

struct LaunchShape {
  Grid grid = {};             // blocks
  unsigned threads = 1;       // in a block
  unsigned shared_bytes = 0;  // dynamic shared memory; with the static beyond 48 KiB see Function::allow_shared_bytes
  bool starts_early =
      false;  // may start before the kernel ahead of it has ended (griddepcontrol; compute capability 9.0)
};

class Function {
 public:
  // `name` is for messages.
  Function(const Context &context, CUfunction handle, std::string name);

  const Context &context() const { return *context_; }
  const std::string &name() const { return name_; }
  unsigned shared_bytes() const { return static_cast<unsigned>(shared_bytes_); }  // of a block, static

  // Lets launches ask for this much dynamic shared memory, or as much as they were let before: graphs may hold those.
  void allow_shared_bytes(unsigned bytes);

  // Launches with one parameter of any trivially copyable type, copied during the call. See launch() below.
  void launch_raw(const Stream &stream, const LaunchShape &shape, const void *arguments) const;

 private:
  const Context *context_;
  CUfunction handle_;
  std::string name_;
  int shared_bytes_;
  unsigned allowed_shared_bytes_ = 0;  // dynamic
};

// Submits a kernel. `arguments` is the kernel's one parameter; both sides include its declaration from kernels/.
template <class Arguments>
void launch(const Stream &stream, const Function &function, const LaunchShape &shape, const Arguments &arguments) {
  static_assert(std::is_trivially_copyable_v<Arguments>, "kernels take their arguments as bytes");
  static_assert(sizeof(Arguments) <= 4096, "more than 4 KiB of parameters need newer devices and drivers");
  Arguments clean = arguments;
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&clean);  // else the driver, and who looks over its shoulder, gets what was on the stack
#endif
  function.launch_raw(stream, shape, &clean);
}

class Module {
 public:
  // Loads a cubin or a PTX text. Null if the driver refuses it (made for another device, or by a newer compiler), with
  // the reason in *why. Throws for everything else.
  static std::unique_ptr<Module> load(const Context &context, const std::string &image, std::string *why);
  // Takes over what the driver has loaded.
  Module(const Context &context, CUmodule module) : module_(context, module) {}

  // Throws INTERNAL if the module has no such kernel.
  Function function(const std::string &name) const;

 private:
  Handle<CUmodule, &DriverFunctions::cuModuleUnload> module_;
};

}  // namespace bonsai::cuda
