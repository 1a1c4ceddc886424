// The ABI's table over C++ classes: every function checks its handles and structs, forwards, and turns failures into
// statuses.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <memory>
#include <string>

#include "plugins/common/failure.h"
#include "plugins/common/kv_range.h"

namespace bonsai::plugin {

// What session_memory answers.
struct MemoryNeed {
  uint64_t device_bytes, host_bytes;
};

// The functions of a backend that is made of
//   Backend::Device, Weight, Session  classes whose constructors and members carry the ABI's functions out, and throw
//   Backend::count(why_none)          devices that can be opened; with none, it says why
//   Backend::describe(index, info), Backend::open(index, config), Backend::supported_uses(dtype)
template <class Backend>
struct BackendFunctions {
  using Device = typename Backend::Device;
  using Weight = typename Backend::Weight;
  using Session = typename Backend::Session;

  static void check_index(uint32_t index) {
    std::string why_none;
    const uint32_t count = Backend::count(why_none);
    if (count == 0) refuse("device index is {}, and there is no device: {}", index, why_none);
    if (index >= count) reject("device index is {}, expected less than {}", index, count);
  }

  // The ABI's handles are pointers to these classes.
  static Device &object(bonsai_device *device) {
    require_pointer(device, "device");
    return *reinterpret_cast<Device *>(device);
  }

  static Session &object(bonsai_session *session) {
    require_pointer(session, "session");
    return *reinterpret_cast<Session *>(session);
  }

  static bonsai_status device_count(uint32_t *count, bonsai_error *error) {
    return guarded(error, [&] {
      require_pointer(count, "count");
      std::string why_none;
      *count = Backend::count(why_none);
      if (*count == 0) report(error, BONSAI_OK, why_none.c_str());
    });
  }

  static bonsai_status device_info(uint32_t index, bonsai_device_info *info, bonsai_error *error) {
    return guarded(error, [&] {
      check_index(index);
      checked(info, "info");
      Backend::describe(index, *info);
    });
  }

  static bonsai_status device_open(uint32_t index, const bonsai_device_config *config, bonsai_device **device,
                                   bonsai_error *error) {
    return guarded(error, [&] {
      check_index(index);
      require_pointer(device, "device");
      std::unique_ptr<Device> opened = Backend::open(index, checked(config, "config"));
      *device = reinterpret_cast<bonsai_device *>(opened.release());
    });
  }

  static void device_close(bonsai_device *device) {
    std::unique_ptr<Device>(reinterpret_cast<Device *>(device)).reset();
  }

  static bonsai_status dtype_support(bonsai_device *device, bonsai_dtype dtype, bonsai_weight_use *uses,
                                     bonsai_error *error) {
    return guarded(error, [&] {
      object(device);
      require_pointer(uses, "uses");
      *uses = Backend::supported_uses(dtype);
    });
  }

  static bonsai_status weight_upload(bonsai_device *device, const bonsai_weight_desc *desc, bonsai_weight **weight,
                                     bonsai_weight_result *result, bonsai_error *error) {
    return guarded(error, [&] {
      require_pointer(weight, "weight");
      if (result) checked(result, "result");
      const auto &checked_desc = checked(desc, "desc");
      auto uploaded = std::make_unique<Weight>(object(device), checked_desc);
      if (result) {
        result->borrowed = uploaded->borrowed_bytes() > 0;
        result->bytes = uploaded->bytes();
      }
      *weight = reinterpret_cast<bonsai_weight *>(uploaded.release());
    });
  }

  static void weight_free(bonsai_device *, bonsai_weight *weight) {
    std::unique_ptr<Weight>(reinterpret_cast<Weight *>(weight)).reset();
  }

  static bonsai_status gemv(bonsai_device *device, const bonsai_gemv_args *args, bonsai_error *error) {
    return guarded(error, [&] { object(device).gemv(checked(args, "args")); });
  }

  static bonsai_status session_memory(bonsai_device *device, const bonsai_model_spec *model,
                                      const bonsai_session_config *config, bonsai_session_memory *memory,
                                      bonsai_error *error) {
    return guarded(error, [&] {
      checked(memory, "memory");
      const MemoryNeed need = Session::memory(object(device), checked(model, "model"), checked(config, "config"));
      memory->device_bytes = need.device_bytes;
      memory->host_bytes = need.host_bytes;
    });
  }

  static bonsai_status session_create(bonsai_device *device, const bonsai_model_spec *model,
                                      const bonsai_session_config *config, bonsai_session **session,
                                      bonsai_error *error) {
    return guarded(error, [&] {
      require_pointer(session, "session");
      auto made = std::make_unique<Session>(object(device), checked(model, "model"), checked(config, "config"));
      *session = reinterpret_cast<bonsai_session *>(made.release());
    });
  }

  static void session_destroy(bonsai_session *session) {
    std::unique_ptr<Session>(reinterpret_cast<Session *>(session)).reset();
  }

  static bonsai_status layer_encode(bonsai_session *session, uint32_t layer, const bonsai_batch *batch, const float *in,
                                    float *out, bonsai_error *error) {
    return guarded(error, [&] { object(session).layer_encode(layer, checked(batch, "batch"), in, out); });
  }

  static bonsai_status lm_head(bonsai_session *session, const float *in, uint32_t n_rows,
                               const bonsai_output *const *outputs, uint32_t n_outputs, bonsai_error *error) {
    return guarded(error, [&] { object(session).lm_head(in, n_rows, outputs, n_outputs); });
  }

  static bonsai_status forward_submit(bonsai_session *session, const bonsai_batch *batch,
                                      const bonsai_output *const *outputs, uint32_t n_outputs, uint64_t *ticket,
                                      bonsai_error *error) {
    return guarded(error, [&] {
      require_pointer(ticket, "ticket");
      *ticket = object(session).forward_submit(checked(batch, "batch"), outputs, n_outputs);
    });
  }

  static bonsai_status forward_wait(bonsai_session *session, uint64_t ticket, bonsai_error *error) {
    return guarded(error, [&] { object(session).forward_wait(ticket); });
  }

  static bonsai_status kv_copy(bonsai_session *session, const uint32_t *sources, const uint32_t *destinations,
                               uint32_t n, bonsai_error *error) {
    return guarded(error, [&] { object(session).kv_copy(sources, destinations, n); });
  }

  static bonsai_status kv_export(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                                 void *data, uint64_t bytes, bonsai_error *error) {
    return guarded(error, [&] {
      object(session).kv_export({.blocks = blocks, .n_blocks = n_blocks, .n_tokens = n_tokens, .bytes = bytes}, data);
    });
  }

  static bonsai_status kv_import(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                                 const void *data, uint64_t bytes, bonsai_error *error) {
    return guarded(error, [&] {
      object(session).kv_import({.blocks = blocks, .n_blocks = n_blocks, .n_tokens = n_tokens, .bytes = bytes}, data);
    });
  }

  static bonsai_status device_status(bonsai_device *device, bonsai_device_status *status, bonsai_error *error) {
    return guarded(error, [&] { object(device).describe(checked(status, "status")); });
  }

  static bonsai_status synchronize(bonsai_device *device, bonsai_error *error) {
    return guarded(error, [&] { object(device).synchronize(); });
  }

  static bonsai_status profile(bonsai_device *device, bonsai_profile_action action, bonsai_profile *profile,
                               bonsai_error *error) {
    return guarded(error, [&] {
      if (profile) checked(profile, "profile");
      object(device).profile(action, profile);
    });
  }
};

// The identity of a backend, for its table.
struct BackendName {
  int32_t priority;
  const char *name, *version, *description;
};

template <class Backend>
constexpr bonsai_backend_api make_table(const BackendName &name) {
  using Functions = BackendFunctions<Backend>;
  return {
      .struct_size = sizeof(bonsai_backend_api),
      .abi_major = BONSAI_ABI_MAJOR,
      .abi_minor = BONSAI_ABI_MINOR,
      .priority = name.priority,
      .name = name.name,
      .version = name.version,
      .description = name.description,
      .device_count = Functions::device_count,
      .device_info = Functions::device_info,
      .device_open = Functions::device_open,
      .device_close = Functions::device_close,
      .dtype_support = Functions::dtype_support,
      .weight_upload = Functions::weight_upload,
      .weight_free = Functions::weight_free,
      .gemv = Functions::gemv,
      .session_memory = Functions::session_memory,
      .session_create = Functions::session_create,
      .session_destroy = Functions::session_destroy,
      .layer_encode = Functions::layer_encode,
      .lm_head = Functions::lm_head,
      .forward_submit = Functions::forward_submit,
      .forward_wait = Functions::forward_wait,
      .kv_copy = Functions::kv_copy,
      .kv_export = Functions::kv_export,
      .kv_import = Functions::kv_import,
      .device_status = Functions::device_status,
      .synchronize = Functions::synchronize,
      .profile = Functions::profile,
  };
}

}  // namespace bonsai::plugin
