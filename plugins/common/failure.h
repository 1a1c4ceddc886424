// How a call fails: thrown where the fault is found, turned into a status and a message at the C table.
#pragma once

#include <bonsai/backend.h>
#include <fmt/format.h>

#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "core/base/floating_point_environment.h"

namespace bonsai::plugin {

class Failure : public std::exception {
 public:
  Failure(bonsai_status status, std::string message) : status_(status), message_(std::move(message)) {}
  bonsai_status status() const { return status_; }
  const char *what() const noexcept override { return message_.c_str(); }

 private:
  bonsai_status status_;
  std::string message_;
};

// A caller's mistake: throws BONSAI_INVALID_ARGUMENT. One line that names the argument, what it was and what it may be.
template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> format, Args &&...args) {
  throw Failure(BONSAI_INVALID_ARGUMENT, fmt::format(format, std::forward<Args>(args)...));
}

// A legal request that this backend does not serve: throws BONSAI_UNSUPPORTED.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args &&...args) {
  throw Failure(BONSAI_UNSUPPORTED, fmt::format(format, std::forward<Args>(args)...));
}

// Fills the caller's error, as far as its struct_size reaches, and returns `status`. A message that is too long is cut
// between characters.
bonsai_status report(bonsai_error *error, bonsai_status status, const char *message) noexcept;

// Runs the body of a call: in the IEEE default floating-point environment, whatever the caller's is, and with every
// exception turned into a status.
template <class Body>
bonsai_status guarded(bonsai_error *error, Body &&body) noexcept {
  try {
    const DefaultFloatingPoint environment;
    body();
    return BONSAI_OK;
  } catch (const Failure &failure) {
    return report(error, failure.status(), failure.what());
  } catch (const std::bad_alloc &) {
    return report(error, BONSAI_OUT_OF_MEMORY, "host memory: an allocation of a few bytes failed");
  } catch (const std::exception &exception) {
    return report(error, BONSAI_INTERNAL, exception.what());
  } catch (...) {
    return report(error, BONSAI_INTERNAL, "an exception of unknown type");
  }
}

// The bytes of a struct up to its last field in version 0.9. Not sizeof: it grows with the header, while older hosts
// stay as they are. Whatever is appended later is looked for with BONSAI_HAS_FIELD.
template <class Struct>
constexpr size_t kBytesIn09 = 0;
#define BONSAI_LAST_IN_0_9(type, field) \
  template <>                           \
  inline constexpr size_t kBytesIn09<type> = offsetof(type, field) + sizeof(type::field)
BONSAI_LAST_IN_0_9(bonsai_device_info, max_k);
BONSAI_LAST_IN_0_9(bonsai_option, value);
BONSAI_LAST_IN_0_9(bonsai_device_config, log_context);
BONSAI_LAST_IN_0_9(bonsai_device_status, memory_free_bytes);
BONSAI_LAST_IN_0_9(bonsai_weight_part, data_bytes);
BONSAI_LAST_IN_0_9(bonsai_weight_desc, name);
BONSAI_LAST_IN_0_9(bonsai_weight_result, bytes);
BONSAI_LAST_IN_0_9(bonsai_gemv_args, y);
BONSAI_LAST_IN_0_9(bonsai_weight_slice, rows);
BONSAI_LAST_IN_0_9(bonsai_layer_spec, o_bias);
BONSAI_LAST_IN_0_9(bonsai_model_spec, head);
BONSAI_LAST_IN_0_9(bonsai_session_config, reserved);
BONSAI_LAST_IN_0_9(bonsai_session_memory, host_bytes);
BONSAI_LAST_IN_0_9(bonsai_batch, blocks_per_sequence);
BONSAI_LAST_IN_0_9(bonsai_output, hidden);
BONSAI_LAST_IN_0_9(bonsai_profile, phases);
#undef BONSAI_LAST_IN_0_9

// Throws unless `pointer` is given and its struct_size covers all of its form in version 0.9.
template <class Struct>
Struct &checked(Struct *pointer, const char *name) {
  constexpr size_t kBytes = kBytesIn09<std::remove_const_t<Struct>>;
  static_assert(kBytes > 0, "which field was the last in version 0.9?");
  if (!pointer) reject("{} is NULL", name);
  if (pointer->struct_size < kBytes) {
    reject("{}: struct_size is {}, expected at least {}", name, pointer->struct_size, kBytes);
  }
  return *pointer;
}

template <class T>
void require_pointer(const T *pointer, const char *name) {
  if (!pointer) reject("{} is NULL", name);
}

}  // namespace bonsai::plugin
