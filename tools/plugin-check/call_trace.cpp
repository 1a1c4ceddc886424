#include "tools/plugin-check/call_trace.h"

#include "tools/plugin-check/environment.h"

namespace bonsai::check {
namespace {

// A function of the table is given no context of ours, so what the noting ones need is static. trace_calls and traced
// set both before the first call.
CallTrace own_trace;
CallTrace *current_trace = &own_trace;
bonsai_backend_api plugin_table{};

class Call {
 public:
  explicit Call(const char *function) : kept_(function) {
    current_trace->function = function;
    ++current_trace->n_under_way;
  }
  ~Call() { --current_trace->n_under_way; }
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

 private:
  const KeptEnvironment kept_;
};

template <auto kMember>
struct Noting;

template <class R, class... Args, R (*bonsai_backend_api::*kMember)(Args...)>
struct Noting<kMember> {
  static inline const char *name = nullptr;
  static R call(Args... args) {
    const Call noted(name);
    return (plugin_table.*kMember)(args...);
  }
};

// What the plugin does not offer stays NULL.
template <auto kMember>
void note(bonsai_backend_api &table, const char *name) {
  if (table.*kMember == nullptr) return;
  Noting<kMember>::name = name;
  table.*kMember = Noting<kMember>::call;
}

#define BONSAI_NOTE(function) note<&bonsai_backend_api::function>(table, #function)

void note_all(bonsai_backend_api &table) {
  BONSAI_NOTE(device_count);
  BONSAI_NOTE(device_info);
  BONSAI_NOTE(device_open);
  BONSAI_NOTE(device_close);
  BONSAI_NOTE(dtype_support);
  BONSAI_NOTE(weight_upload);
  BONSAI_NOTE(weight_free);
  BONSAI_NOTE(gemv);
  BONSAI_NOTE(session_memory);
  BONSAI_NOTE(session_create);
  BONSAI_NOTE(session_destroy);
  BONSAI_NOTE(layer_encode);
  BONSAI_NOTE(lm_head);
  BONSAI_NOTE(forward_submit);
  BONSAI_NOTE(forward_wait);
  BONSAI_NOTE(kv_copy);
  BONSAI_NOTE(kv_export);
  BONSAI_NOTE(kv_import);
  BONSAI_NOTE(device_status);
  BONSAI_NOTE(synchronize);
  BONSAI_NOTE(profile);
  static_assert(sizeof table == offsetof(bonsai_backend_api, profile) + sizeof table.profile,
                "a function was appended to the table: note it too");
}

#undef BONSAI_NOTE

}  // namespace

About::About(std::string_view what) {
  current_trace->about[what.copy(current_trace->about, CallTrace::kMostAbout - 1)] = 0;
}
About::~About() { current_trace->about[0] = 0; }

void trace_calls(CallTrace &trace) { current_trace = &trace; }

std::shared_ptr<const host::Backend> traced(std::shared_ptr<const host::Backend> backend) {
  plugin_table = backend->api();
  return with_table(*backend, note_all);
}

std::string_view traced_name() { return plugin_table.name ? plugin_table.name : std::string_view(); }

}  // namespace bonsai::check
