// A backend that computes as the CPU does, for it passes every call on to that plugin, and that fails on demand:
//   fail.at=N           the Nth call on a device fails, device_open being the first (0, the default: none)
//   fail.status=S       with this status: oom, lost, unsupported, invalid or internal (the default). Or the call
//                       succeeds: spoilt, with NaN among the numbers that it computes, or without the session that it
//                       makes; least, with nothing above -infinity among them, or one of a hidden state's at that;
//                       forbidden, with the first token selected that a mask or an adjustment excludes; twice, with
//                       the first of TOP_K's ids in the second place, too; rising, with TOP_K's second logit beyond the
//                       first; unscored, and lm_head and forward_submit write no logit of what they select; idle, and
//                       gemv, lm_head and kv_export have written nothing. Or it throws an exception: thrown
//   fail.function=NAME  only calls of this function of the table count (all, the default: every one that has a status).
//                       One without a status can throw
//   fail.sessions=N     one more session than this at once finds no memory (0, the default: any number)
// It keeps account of what it hands out and of the ABI's rules, and logs at debug level "opened" when a device opens
// and when it closes "outputs: L whole rows, A argmax, T top-k, C chained" and "closed after N calls; left behind: W
// weights, S sessions; rules broken: R". The build makes several of it: BACKEND_LEVEL is the highest level that is
// offered, SELECTS 0 that it hands out whole rows only (max_k 0, which no backend should say), ADJUSTS 0 that it lacks
// BONSAI_FEATURE_ADJUST, ELSEWHERE 1 that it is no processor of this host's, and what it selects is not known before it
// is waited for, MOVES 0 that it lacks kv_copy, kv_export and kv_import, ACCOUNTS 0 that it borrows whatever it can and
// lacks device_status, BLOCK_SIZE the only size of KV blocks that it lists (at level 0, where nobody should ask for
// it).
#include <bonsai/backend.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What the build may say otherwise.
#ifndef SELECTS
#define SELECTS 1
#endif
#ifndef ADJUSTS
#define ADJUSTS 1
#endif
#ifndef ELSEWHERE
#define ELSEWHERE 0
#endif
#ifndef ACCOUNTS
#define ACCOUNTS 1
#endif
#ifndef MOVES
#define MOVES 1
#endif

// What is wrong with the results of a call that succeeds.
enum class Spoilt { kNo, kNaN, kLeast, kForbidden, kTwice, kRising, kUnscored, kIdle };

struct FailurePlan {
  uint64_t at = 0;
  bonsai_status status = BONSAI_INTERNAL;
  Spoilt spoilt = Spoilt::kNo;
  bool is_thrown = false;
  std::string function = "all";
  uint64_t most_sessions = 0;
};

struct bonsai_device {
  bonsai_device *cpu = nullptr;
  bonsai_log_fn log = nullptr;
  void *log_context = nullptr;
  FailurePlan plan;
  uint64_t n_calls = 0;  // that count
  bool lost = false;
  uint64_t n_outputs[4] = {};                 // by kind
  uint64_t n_chained = 0;                     // tokens from outputs
  std::set<const bonsai_weight *> weights;    // the CPU's own handles
  std::set<const bonsai_session *> sessions;  // ours
  std::atomic<bool> busy = false;
  std::atomic<uint32_t> n_rules_broken = 0;
};

// What an ARGMAX output selects, kept from the caller until its ticket is waited for.
struct HeldOutput {
  bonsai_output output = {};  // as the caller's, but for where its results go
  int32_t id = -1;
  float logit = 0;
  int32_t *callers_id = nullptr;
  float *callers_logit = nullptr;
};

struct Flight {
  uint64_t ticket = 0;
  std::vector<bonsai_output> outputs = {};  // as the caller described them
  std::vector<std::unique_ptr<HeldOutput>> held = {};
};

struct bonsai_session {
  bonsai_device *device = nullptr;
  bonsai_session *cpu = nullptr;
  uint32_t vocab = 0;
  std::deque<Flight> flights = {};
  std::vector<float> unread = {};  // where logits go that the caller does not get
};

namespace {

const bonsai_backend_api *load_cpu() {
  void *plugin = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_NODELETE);
  void *entry = plugin ? dlsym(plugin, BONSAI_BACKEND_ENTRY_NAME) : nullptr;
  return entry ? reinterpret_cast<bonsai_backend_entry_fn>(entry)(BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR) : nullptr;
}

// nullptr if the plugin does not load: the entry function asks first.
const bonsai_backend_api *cpu_table() {
  static const bonsai_backend_api *const table = load_cpu();
  return table;
}

const bonsai_backend_api &cpu() { return *cpu_table(); }

bonsai_status failure(bonsai_error *error, bonsai_status status, const std::string &message) {
  if (error) {
    error->code = status;
    std::snprintf(error->message, sizeof error->message, "%s", message.c_str());
  }
  return status;
}

void say(const bonsai_device &device, const std::string &line) {
  if (device.log) device.log(device.log_context, BONSAI_LOG_DEBUG, (BACKEND_NAME ": " + line).c_str());
}

// Calls on one device come one at a time.
class Turn {
 public:
  explicit Turn(bonsai_device &device) : device_(device) {
    if (device_.busy.exchange(true)) ++device_.n_rules_broken;
  }
  ~Turn() { device_.busy = false; }
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;

 private:
  bonsai_device &device_;
};

// Whether it is this call's turn to fail.
bool fails(bonsai_device &device, std::string_view function) {
  if (device.plan.function != "all" && device.plan.function != function) return false;
  return ++device.n_calls == device.plan.at;
}

// At the end of one that has none.
void throw_if_planned(bonsai_device &device, std::string_view function) {
  if (device.plan.is_thrown && device.plan.function == function && fails(device, function))
    throw std::runtime_error("thrown by " + std::string(function));
}

// One call that has a status: passed on, but where the plan says otherwise or the device is lost. `spoil` is what makes
// its results useless.
template <class Call, class Spoil>
bonsai_status pass_on(bonsai_device *device, const char *function, bonsai_error *error, Call call, Spoil spoil) {
  const Turn turn(*device);
  if (device->lost) {
    ++device->n_rules_broken;
    return failure(error, BONSAI_DEVICE_LOST, std::string(function) + " was called after the device was lost");
  }
  if (fails(*device, function)) {
    if (device->plan.is_thrown) throw std::runtime_error(std::string("thrown by ") + function);
    if (device->plan.spoilt != Spoilt::kNo) return spoil();
    device->lost = device->plan.status == BONSAI_DEVICE_LOST;
    return failure(error, device->plan.status, std::string("injected into ") + function);
  }
  return call();
}

// One whose results nothing can be wrong with.
template <class Call>
bonsai_status pass_on(bonsai_device *device, const char *function, bonsai_error *error, Call call) {
  return pass_on(device, function, error, call, call);
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLeast = -std::numeric_limits<float>::infinity();

void spoil(const bonsai_session &session, const bonsai_output &output) {
  switch (session.device->plan.spoilt) {
    case Spoilt::kNo:
    case Spoilt::kUnscored:
    case Spoilt::kIdle:
      return;
    case Spoilt::kNaN:
      for (float *numbers : {output.logits, output.hidden, output.top_logits})
        if (numbers) *numbers = kNaN;
      return;
    case Spoilt::kLeast:
      if (output.hidden) *output.hidden = kLeast;
      if (output.logits) std::fill_n(output.logits, session.vocab, kLeast);
      if (output.top_logits) std::fill_n(output.top_logits, output.kind == BONSAI_OUTPUT_TOP_K ? output.k : 1, kLeast);
      return;
    case Spoilt::kForbidden:
      for (int32_t id = 0; output.mask && id < static_cast<int32_t>(session.vocab); ++id) {
        if ((output.mask[id / 32] >> id % 32 & 1) == 0) return void(*output.top_ids = id);
      }
      for (uint32_t i = 0; i < output.n_adjustments; ++i) {
        if (output.adjust_add[i] == kLeast) return void(*output.top_ids = output.adjust_ids[i]);
      }
      return;
    case Spoilt::kTwice:
      if (output.kind == BONSAI_OUTPUT_TOP_K) output.top_ids[1] = output.top_ids[0];
      return;
    case Spoilt::kRising:
      if (output.kind == BONSAI_OUTPUT_TOP_K) output.top_logits[0] = 1, output.top_logits[1] = 1.5f;
      return;
  }
}

bonsai_status device_count(uint32_t *count, bonsai_error *error) { return cpu().device_count(count, error); }

constexpr bonsai_option_info kAt = {sizeof(bonsai_option_info), "fail.at", "the call that fails (default: 0, none)"};
constexpr bonsai_option_info kStatus = {sizeof(bonsai_option_info), "fail.status",
                                        "oom, lost, unsupported, invalid, internal (the default), spoilt, least, "
                                        "forbidden, twice, rising, unscored, idle or thrown"};
constexpr bonsai_option_info kFunction = {sizeof(bonsai_option_info), "fail.function",
                                          "calls that count (default: all)"};
constexpr bonsai_option_info kSessions = {sizeof(bonsai_option_info), "fail.sessions",
                                          "most sessions at once (default: 0, any number)"};
constexpr bonsai_option_info kThreads = {sizeof(bonsai_option_info), "cpu.threads", "as the CPU backend's"};
constexpr const bonsai_option_info *kOptions[] = {&kAt, &kStatus, &kFunction, &kSessions, &kThreads};

bonsai_status device_info(uint32_t index, bonsai_device_info *info, bonsai_error *error) {
  const bonsai_status status = cpu().device_info(index, info, error);
  if (status != BONSAI_OK) return status;
  info->name = "a device that fails";
  if (!SELECTS) info->max_k = 0;
  if (!ADJUSTS) info->features &= ~bonsai_features{BONSAI_FEATURE_ADJUST};
#ifdef BLOCK_SIZE
  static constexpr uint32_t kBlockSize = BLOCK_SIZE;
  info->block_sizes = &kBlockSize;
  info->n_block_sizes = 1;
#endif
  info->options = kOptions;
  info->n_options = std::size(kOptions);
  return BONSAI_OK;
}

bonsai_status parse_status(std::string_view text) {
  if (text == "oom") return BONSAI_OUT_OF_MEMORY;
  if (text == "unsupported") return BONSAI_UNSUPPORTED;
  if (text == "invalid") return BONSAI_INVALID_ARGUMENT;
  return text == "lost" ? BONSAI_DEVICE_LOST : BONSAI_INTERNAL;
}

Spoilt parse_spoilt(std::string_view text) {
  if (text == "spoilt") return Spoilt::kNaN;
  if (text == "least") return Spoilt::kLeast;
  if (text == "idle") return Spoilt::kIdle;
  if (text == "unscored") return Spoilt::kUnscored;
  if (text == "twice") return Spoilt::kTwice;
  if (text == "rising") return Spoilt::kRising;
  return text == "forbidden" ? Spoilt::kForbidden : Spoilt::kNo;
}

bonsai_status device_open(uint32_t index, const bonsai_device_config *config, bonsai_device **device,
                          bonsai_error *error) {
  auto made = std::make_unique<bonsai_device>();
  std::vector<const bonsai_option *> for_cpu;
  for (uint32_t i = 0; i < config->n_options; ++i) {
    const bonsai_option &option = *config->options[i];
    const std::string_view key = option.key;
    if (key == kAt.key)
      made->plan.at = std::strtoull(option.value, nullptr, 10);
    else if (key == kStatus.key)
      made->plan.status = parse_status(option.value), made->plan.spoilt = parse_spoilt(option.value),
      made->plan.is_thrown = option.value == std::string_view("thrown");
    else if (key == kFunction.key)
      made->plan.function = option.value;
    else if (key == kSessions.key)
      made->plan.most_sessions = std::strtoull(option.value, nullptr, 10);
    else
      for_cpu.push_back(&option);
  }
  static constexpr bonsai_option kMapped = {.struct_size = sizeof kMapped, .key = "cpu.mapped", .value = "on"};
  if (!ACCOUNTS) for_cpu.push_back(&kMapped);
  if (fails(*made, "device_open")) return failure(error, made->plan.status, "injected into device_open");
  made->log = config->log;
  made->log_context = config->log_context;
  bonsai_device_config cpu_config = *config;
  cpu_config.n_options = static_cast<uint32_t>(for_cpu.size());
  cpu_config.options = for_cpu.data();
  const bonsai_status status = cpu().device_open(index, &cpu_config, &made->cpu, error);
  if (status != BONSAI_OK) return status;
  say(*made, "opened");
  *device = made.release();
  return BONSAI_OK;
}

void device_close(bonsai_device *device) {
  const std::unique_ptr<bonsai_device> closed(device);
  if (!closed) return;
  cpu().device_close(closed->cpu);
  const auto count = [&](bonsai_output_kind kind) { return std::to_string(closed->n_outputs[kind]); };
  say(*closed, "outputs: " + count(BONSAI_OUTPUT_LOGITS) + " whole rows, " + count(BONSAI_OUTPUT_ARGMAX) + " argmax, " +
                   count(BONSAI_OUTPUT_TOP_K) + " top-k, " + std::to_string(closed->n_chained) + " chained");
  say(*closed, "closed after " + std::to_string(closed->n_calls) + " calls; left behind: " +
                   std::to_string(closed->weights.size()) + " weights, " + std::to_string(closed->sessions.size()) +
                   " sessions; rules broken: " + std::to_string(closed->n_rules_broken));
  throw_if_planned(*closed, "device_close");
}

bonsai_status dtype_support(bonsai_device *device, bonsai_dtype dtype, bonsai_weight_use *uses, bonsai_error *error) {
  return pass_on(device, "dtype_support", error, [&] { return cpu().dtype_support(device->cpu, dtype, uses, error); });
}

bonsai_status weight_upload(bonsai_device *device, const bonsai_weight_desc *desc, bonsai_weight **weight,
                            bonsai_weight_result *result, bonsai_error *error) {
  return pass_on(device, "weight_upload", error, [&] {
    const bonsai_status status = cpu().weight_upload(device->cpu, desc, weight, result, error);
    if (status == BONSAI_OK) device->weights.insert(*weight);
    return status;
  });
}

// Sessions go before the weights that they use, and each weight once.
void weight_free(bonsai_device *device, bonsai_weight *weight) {
  const Turn turn(*device);
  if (weight == nullptr) return;
  if (!device->sessions.empty() || device->weights.erase(weight) == 0) {
    ++device->n_rules_broken;
    return;
  }
  cpu().weight_free(device->cpu, weight);
  throw_if_planned(*device, "weight_free");
}

bonsai_status gemv(bonsai_device *device, const bonsai_gemv_args *args, bonsai_error *error) {
  const auto call = [&] { return cpu().gemv(device->cpu, args, error); };
  return pass_on(device, "gemv", error, call, [&] {
    if (device->plan.spoilt == Spoilt::kIdle) return bonsai_status{BONSAI_OK};
    const bonsai_status status = call();
    *args->y = kNaN;
    return status;
  });
}

bonsai_status session_memory(bonsai_device *device, const bonsai_model_spec *model, const bonsai_session_config *config,
                             bonsai_session_memory *memory, bonsai_error *error) {
  return pass_on(device, "session_memory", error,
                 [&] { return cpu().session_memory(device->cpu, model, config, memory, error); });
}

bonsai_status session_create(bonsai_device *device, const bonsai_model_spec *model, const bonsai_session_config *config,
                             bonsai_session **session, bonsai_error *error) {
  const auto call = [&] {
    if (config->max_k > model->vocab)
      return failure(error, BONSAI_INVALID_ARGUMENT, "max_k is larger than the vocabulary");
    if (device->plan.most_sessions > 0 && device->sessions.size() >= device->plan.most_sessions)
      return failure(error, BONSAI_OUT_OF_MEMORY, "no room for another session");
    auto made = std::make_unique<bonsai_session>();
    made->device = device;
    made->vocab = model->vocab;
    const bonsai_status status = cpu().session_create(device->cpu, model, config, &made->cpu, error);
    if (status != BONSAI_OK) return status;
    device->sessions.insert(made.get());
    *session = made.release();
    return status;
  };
  return pass_on(device, "session_create", error, call, [] { return bonsai_status{BONSAI_OK}; });
}

// A session that was destroyed before is not in its device's account; ASan sees the read of it.
void session_destroy(bonsai_session *session) {
  const std::unique_ptr<bonsai_session> destroyed(session);
  if (!destroyed) return;
  const Turn turn(*destroyed->device);
  if (destroyed->device->sessions.erase(session) == 0) ++destroyed->device->n_rules_broken;
  cpu().session_destroy(destroyed->cpu);
  throw_if_planned(*destroyed->device, "session_destroy");
}

bonsai_status layer_encode(bonsai_session *session, uint32_t layer, const bonsai_batch *batch, const float *in,
                           float *out, bonsai_error *error) {
  return pass_on(session->device, "layer_encode", error,
                 [&] { return cpu().layer_encode(session->cpu, layer, batch, in, out, error); });
}

void count_outputs(bonsai_device &device, const bonsai_output *const *outputs, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) ++device.n_outputs[outputs[i]->kind];
}

// Outputs that want the logits of what they select elsewhere.
std::vector<bonsai_output> unscored(bonsai_session &session, const bonsai_output *const *outputs, uint32_t n) {
  std::vector<bonsai_output> elsewhere;
  session.unread.resize(session.vocab);
  for (uint32_t i = 0; i < n; ++i) {
    elsewhere.push_back(*outputs[i]);
    elsewhere.back().top_logits = session.unread.data();
  }
  return elsewhere;
}

std::vector<const bonsai_output *> pointers_to(const std::vector<bonsai_output> &outputs) {
  std::vector<const bonsai_output *> pointers;
  for (const bonsai_output &output : outputs) pointers.push_back(&output);
  return pointers;
}

bonsai_status lm_head(bonsai_session *session, const float *in, uint32_t n_rows, const bonsai_output *const *outputs,
                      uint32_t n_outputs, bonsai_error *error) {
  count_outputs(*session->device, outputs, n_outputs);
  const auto call = [&] { return cpu().lm_head(session->cpu, in, n_rows, outputs, n_outputs, error); };
  return pass_on(session->device, "lm_head", error, call, [&] {
    const Spoilt spoilt = session->device->plan.spoilt;
    if (spoilt == Spoilt::kIdle) return bonsai_status{BONSAI_OK};
    if (spoilt == Spoilt::kUnscored) {
      const auto without = unscored(*session, outputs, n_outputs);
      return cpu().lm_head(session->cpu, in, n_rows, pointers_to(without).data(), n_outputs, error);
    }
    const bonsai_status status = call();
    for (uint32_t i = 0; i < n_outputs; ++i) spoil(*session, *outputs[i]);
    return status;
  });
}

// The outputs as the CPU gets them.
std::vector<const bonsai_output *> hold(const bonsai_output *const *outputs, uint32_t n, Flight &flight) {
  std::vector<const bonsai_output *> for_cpu(outputs, outputs + n);
  if (!ELSEWHERE) return for_cpu;
  for (const bonsai_output *&output : for_cpu) {
    if (output->kind != BONSAI_OUTPUT_ARGMAX) continue;
    auto held = std::make_unique<HeldOutput>();
    held->output = *output;
    held->callers_id = std::exchange(held->output.top_ids, &held->id);
    held->callers_logit = std::exchange(held->output.top_logits, &held->logit);
    output = &held->output;
    flight.held.push_back(std::move(held));
  }
  return for_cpu;
}

bonsai_status forward_submit(bonsai_session *session, const bonsai_batch *batch, const bonsai_output *const *outputs,
                             uint32_t n_outputs, uint64_t *ticket, bonsai_error *error) {
  bonsai_device &device = *session->device;
  count_outputs(device, outputs, n_outputs);
  for (uint32_t i = 0; batch->tokens && i < batch->n_tokens; ++i) device.n_chained += batch->tokens[i] < 0;
  const auto submit = [&](const bonsai_output *const *wanted) {
    Flight flight;
    for (uint32_t i = 0; i < n_outputs; ++i) flight.outputs.push_back(*wanted[i]);
    const auto for_cpu = hold(wanted, n_outputs, flight);
    const bonsai_status status =
        cpu().forward_submit(session->cpu, batch, for_cpu.data(), n_outputs, &flight.ticket, error);
    if (status != BONSAI_OK) return status;
    *ticket = flight.ticket;
    session->flights.push_back(std::move(flight));
    if (session->flights.size() > 2) ++device.n_rules_broken;
    return status;
  };
  const auto call = [&] { return submit(outputs); };
  return pass_on(&device, "forward_submit", error, call, [&] {
    if (device.plan.spoilt != Spoilt::kUnscored) return call();
    const auto without = unscored(*session, outputs, n_outputs);
    return submit(pointers_to(without).data());
  });
}

// A wait that fails ends its ticket all the same.
bonsai_status forward_wait(bonsai_session *session, uint64_t ticket, bonsai_error *error) {
  const bonsai_status status = cpu().forward_wait(session->cpu, ticket, error);
  Flight flight;
  if (session->flights.empty() || session->flights.front().ticket != ticket) {
    ++session->device->n_rules_broken;
  } else {
    flight = std::move(session->flights.front());
    session->flights.pop_front();
  }
  const auto call = [&] {
    for (const auto &held : flight.held) {
      *held->callers_id = held->id;
      *held->callers_logit = held->logit;
    }
    return status;
  };
  return pass_on(session->device, "forward_wait", error, call, [&] {
    call();
    for (const bonsai_output &output : flight.outputs) spoil(*session, output);
    return status;
  });
}

bonsai_status kv_copy(bonsai_session *session, const uint32_t *sources, const uint32_t *destinations, uint32_t n,
                      bonsai_error *error) {
  return pass_on(session->device, "kv_copy", error,
                 [&] { return cpu().kv_copy(session->cpu, sources, destinations, n, error); });
}

bonsai_status kv_export(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                        void *data, uint64_t bytes, bonsai_error *error) {
  const auto call = [&] { return cpu().kv_export(session->cpu, blocks, n_blocks, n_tokens, data, bytes, error); };
  return pass_on(session->device, "kv_export", error, call,
                 [&] { return session->device->plan.spoilt == Spoilt::kIdle ? bonsai_status{BONSAI_OK} : call(); });
}

bonsai_status kv_import(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                        const void *data, uint64_t bytes, bonsai_error *error) {
  return pass_on(session->device, "kv_import", error,
                 [&] { return cpu().kv_import(session->cpu, blocks, n_blocks, n_tokens, data, bytes, error); });
}

bonsai_status device_status(bonsai_device *device, bonsai_device_status *status, bonsai_error *error) {
  return pass_on(device, "device_status", error, [&] {
    const bonsai_status done = cpu().device_status(device->cpu, status, error);
    if (ELSEWHERE) status->threads = 0;
    return done;
  });
}

bonsai_status synchronize(bonsai_device *device, bonsai_error *error) {
  return pass_on(device, "synchronize", error, [&] { return cpu().synchronize(device->cpu, error); });
}

bonsai_status profile(bonsai_device *device, bonsai_profile_action action, bonsai_profile *profile,
                      bonsai_error *error) {
  return pass_on(device, "profile", error, [&] { return cpu().profile(device->cpu, action, profile, error); });
}

// NULL where BACKEND_LEVEL, which the build sets, lies below the level that offers the function.
template <class Function>
constexpr Function *offered_from(int level, Function *function) {
  return BACKEND_LEVEL >= level ? function : nullptr;
}

constexpr bonsai_backend_api kTable = {
    .struct_size = sizeof(bonsai_backend_api),
    .abi_major = BONSAI_ABI_MAJOR,
    .abi_minor = BONSAI_ABI_MINOR,
    .priority = 0,
    .name = BACKEND_NAME,
    .version = "1.0.0",
    .description = "The CPU backend, failing on demand",
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .dtype_support = dtype_support,
    .weight_upload = weight_upload,
    .weight_free = weight_free,
    .gemv = gemv,
    .session_memory = offered_from(1, session_memory),
    .session_create = offered_from(1, session_create),
    .session_destroy = offered_from(1, session_destroy),
    .layer_encode = offered_from(1, layer_encode),
    .lm_head = offered_from(1, lm_head),
    .forward_submit = offered_from(2, forward_submit),
    .forward_wait = offered_from(2, forward_wait),
    .kv_copy = offered_from(MOVES ? 1 : 3, kv_copy),
    .kv_export = offered_from(MOVES ? 1 : 3, kv_export),
    .kv_import = offered_from(MOVES ? 1 : 3, kv_import),
    .device_status = offered_from(ACCOUNTS ? 0 : 3, device_status),
    .synchronize = synchronize,
    .profile = profile,
};

}  // namespace

extern "C" const bonsai_backend_api *bonsai_backend_entry(uint32_t host_major, uint32_t) {
  return host_major == BONSAI_ABI_MAJOR && cpu_table() != nullptr ? &kTable : nullptr;
}
