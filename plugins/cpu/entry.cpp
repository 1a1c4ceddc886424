// The backend's table: every function checks its handles, forwards to the C++ classes and turns failures into statuses.
#include <bonsai/backend.h>

#include <memory>

#include "plugins/cpu/device.h"
#include "plugins/cpu/failure.h"
#include "plugins/cpu/session.h"
#include "plugins/cpu/weight.h"

namespace bonsai::cpu {
namespace {

// The ABI's handles are pointers to these classes.
Device &object(bonsai_device *device) {
  require_pointer(device, "device");
  return *reinterpret_cast<Device *>(device);
}

Session &object(bonsai_session *session) {
  require_pointer(session, "session");
  return *reinterpret_cast<Session *>(session);
}

void check_index(uint32_t index) {
  if (index != 0) reject("device index is {}, expected 0: there is one CPU device", index);
}

bonsai_status device_count(uint32_t *count, bonsai_error *error) {
  return guarded(error, [&] {
    require_pointer(count, "count");
    *count = 1;
  });
}

bonsai_status device_info(uint32_t index, bonsai_device_info *info, bonsai_error *error) {
  return guarded(error, [&] {
    check_index(index);
    describe_device(info);
  });
}

bonsai_status device_open(uint32_t index, const bonsai_device_config *config, bonsai_device **device,
                          bonsai_error *error) {
  return guarded(error, [&] {
    check_index(index);
    require_pointer(device, "device");
    const bonsai_device_config &checked_config = checked(config, "config");
    auto opened = std::make_unique<Device>(parse_options(checked_config), config->log, config->log_context);
    *device = reinterpret_cast<bonsai_device *>(opened.release());
  });
}

void device_close(bonsai_device *device) { std::unique_ptr<Device>(reinterpret_cast<Device *>(device)).reset(); }

bonsai_status dtype_support(bonsai_device *device, bonsai_dtype dtype, bonsai_weight_use *uses, bonsai_error *error) {
  return guarded(error, [&] {
    object(device);
    require_pointer(uses, "uses");
    *uses = supported_uses(dtype);
  });
}

bonsai_status weight_upload(bonsai_device *device, const bonsai_weight_desc *desc, bonsai_weight **weight,
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

void weight_free(bonsai_device *, bonsai_weight *weight) {
  std::unique_ptr<Weight>(reinterpret_cast<Weight *>(weight)).reset();
}

bonsai_status gemv(bonsai_device *device, const bonsai_gemv_args *args, bonsai_error *error) {
  return guarded(error, [&] { object(device).gemv(checked(args, "args")); });
}

bonsai_status session_memory(bonsai_device *device, const bonsai_model_spec *model, const bonsai_session_config *config,
                             bonsai_session_memory *memory, bonsai_error *error) {
  return guarded(error, [&] {
    const int threads = object(device).threads().count();
    checked(memory, "memory");
    const uint64_t bytes = Session::memory(checked(model, "model"), checked(config, "config"), threads);
    memory->device_bytes = bytes;
    memory->host_bytes = bytes;
  });
}

bonsai_status session_create(bonsai_device *device, const bonsai_model_spec *model, const bonsai_session_config *config,
                             bonsai_session **session, bonsai_error *error) {
  return guarded(error, [&] {
    require_pointer(session, "session");
    auto made = std::make_unique<Session>(object(device), checked(model, "model"), checked(config, "config"));
    *session = reinterpret_cast<bonsai_session *>(made.release());
  });
}

void session_destroy(bonsai_session *session) {
  std::unique_ptr<Session>(reinterpret_cast<Session *>(session)).reset();
}

bonsai_status layer_encode(bonsai_session *session, uint32_t layer, const bonsai_batch *batch, const float *in,
                           float *out, bonsai_error *error) {
  return guarded(error, [&] { object(session).layer_encode(layer, checked(batch, "batch"), in, out); });
}

bonsai_status lm_head(bonsai_session *session, const float *in, uint32_t n_rows, const bonsai_output *const *outputs,
                      uint32_t n_outputs, bonsai_error *error) {
  return guarded(error, [&] { object(session).lm_head(in, n_rows, outputs, n_outputs); });
}

bonsai_status forward_submit(bonsai_session *session, const bonsai_batch *batch, const bonsai_output *const *outputs,
                             uint32_t n_outputs, uint64_t *ticket, bonsai_error *error) {
  return guarded(error, [&] {
    require_pointer(ticket, "ticket");
    *ticket = object(session).forward_submit(checked(batch, "batch"), outputs, n_outputs);
  });
}

bonsai_status forward_wait(bonsai_session *session, uint64_t ticket, bonsai_error *error) {
  return guarded(error, [&] { object(session).forward_wait(ticket); });
}

bonsai_status kv_copy(bonsai_session *session, const uint32_t *sources, const uint32_t *destinations, uint32_t n,
                      bonsai_error *error) {
  return guarded(error, [&] { object(session).kv_copy(sources, destinations, n); });
}

bonsai_status kv_export(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                        void *data, uint64_t bytes, bonsai_error *error) {
  return guarded(error, [&] {
    object(session).kv_export({.blocks = blocks, .n_blocks = n_blocks, .n_tokens = n_tokens, .bytes = bytes}, data);
  });
}

bonsai_status kv_import(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                        const void *data, uint64_t bytes, bonsai_error *error) {
  return guarded(error, [&] {
    object(session).kv_import({.blocks = blocks, .n_blocks = n_blocks, .n_tokens = n_tokens, .bytes = bytes}, data);
  });
}

bonsai_status device_status(bonsai_device *device, bonsai_device_status *status, bonsai_error *error) {
  return guarded(error, [&] { describe_status(object(device), status); });
}

// Every call has run when it returns.
bonsai_status synchronize(bonsai_device *device, bonsai_error *error) {
  return guarded(error, [&] { object(device); });
}

bonsai_status profile(bonsai_device *device, bonsai_profile_action action, bonsai_profile *profile,
                      bonsai_error *error) {
  return guarded(error, [&] {
    if (profile) checked(profile, "profile");
    object(device).profile().apply(action, profile);
  });
}

constexpr bonsai_backend_api kTable = {
    .struct_size = sizeof(bonsai_backend_api),
    .abi_major = BONSAI_ABI_MAJOR,
    .abi_minor = BONSAI_ABI_MINOR,
    .priority = 0,
    .name = "cpu",
    .version = BONSAI_CPU_VERSION,
    .description = "Any processor, with SIMD; the same bytes on every one of them",
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .dtype_support = dtype_support,
    .weight_upload = weight_upload,
    .weight_free = weight_free,
    .gemv = gemv,
    .session_memory = session_memory,
    .session_create = session_create,
    .session_destroy = session_destroy,
    .layer_encode = layer_encode,
    .lm_head = lm_head,
    .forward_submit = forward_submit,
    .forward_wait = forward_wait,
    .kv_copy = kv_copy,
    .kv_export = kv_export,
    .kv_import = kv_import,
    .device_status = device_status,
    .synchronize = synchronize,
    .profile = profile,
};

}  // namespace
}  // namespace bonsai::cpu

extern "C" const bonsai_backend_api *bonsai_backend_entry(uint32_t host_major, uint32_t) {
  return host_major == BONSAI_ABI_MAJOR ? &bonsai::cpu::kTable : nullptr;
}
