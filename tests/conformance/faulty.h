// What the parts of a backend that is wrong on purpose share: the CPU backend with one fault.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/cpu_entry.h"

namespace bonsai::test {

inline const bonsai_backend_api &cpu() {
  static const bonsai_backend_api &api = *bonsai_cpu_entry(BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  return api;
}

// What bonsai_device points at.
struct Device {
  bonsai_device *inner = nullptr;
  std::string fault;
  bonsai_log_fn log = nullptr;
  void *log_context = nullptr;
  void *leaked = nullptr;                   // never freed
  bonsai_session *first_session = nullptr;  // all there is, where a fault knows one
  uint32_t n_sessions = 0;
  std::vector<int32_t> selected;  // by the last submit of any session, where a fault chains itself
  std::map<const bonsai_weight *, uint64_t> columns;
  std::vector<bonsai_profile_phase> phases;  // as a fault tells them
  std::vector<const bonsai_profile_phase *> phase_pointers;
  bool is(std::string_view name) const { return fault == name; }
};

// What bonsai_session points at.
struct Session {
  bonsai_session *inner = nullptr;
  Device *device = nullptr;
  bonsai_session_config config{};
  uint32_t vocab = 0, hidden = 0;
  uint32_t n_states = 0;      // rows that the last layer_encode left
  uint64_t kv_row_bytes = 0;  // K or V of one token in one layer
  uint32_t layers = 0;
  std::vector<bool> written;  // (n_blocks * block_size) positions that hold something
  uint32_t n_in_flight = 0;
  const float *rotation = nullptr;  // the first cosine, 1, where a fault keeps the model's tables
  bool has_handed_out = false;      // the last layer_encode's state went to its caller
  std::vector<float> state;         // what that was, where a fault keeps it
  bool has_head = false;
  bool has_lost_previous = false;  // as a fault has it, there is no submit to go on from
  uint64_t last_ticket = 0, last_waited = 0;
  uint32_t n_last_outputs = 0;    // of the last submit
  std::vector<int32_t> selected;  // by these, where a fault chains itself
  struct Late {
    const uint32_t *position;  // of the first token, a batch's
    float *logit;
  };
  std::map<uint64_t, Late> late;  // by ticket, what a fault looks at behind the submit
  bool is(std::string_view name) const { return device->is(name); }
};

inline bonsai_device *inner(bonsai_device *device) {
  return device ? reinterpret_cast<Device *>(device)->inner : nullptr;
}
inline bonsai_session *inner(bonsai_session *session) {
  return session ? reinterpret_cast<Session *>(session)->inner : nullptr;
}
inline bool has_fault(bonsai_device *device, std::string_view name) {
  return device && reinterpret_cast<Device *>(device)->is(name);
}
inline bool has_fault(bonsai_session *session, std::string_view name) {
  return session && reinterpret_cast<Session *>(session)->is(name);
}

// Faults of the entry function and of device_info, which are given no options.
inline bool has_entry_fault(std::string_view name) {
  const char *fault = std::getenv("BONSAI_FAULTY_ENTRY");
  return fault && fault == name;
}

inline bonsai_status refuse(bonsai_error *error, const char *message, bonsai_status status = BONSAI_INVALID_ARGUMENT) {
  if (!error) return status;
  if (BONSAI_HAS_FIELD(error, bonsai_error, code)) error->code = status;
  if (BONSAI_HAS_FIELD(error, bonsai_error, message)) std::strcpy(error->message, message);
  return status;
}

// Puts the functions of sessions in their places.
void add_faulty_sessions(bonsai_backend_api &table);

}  // namespace bonsai::test
