// A backend that is wrong on purpose: the CPU backend with one fault, which the device option "fault" names. It shows
// that the conformance suite can fail (faulty_test.cpp).
#include <bonsai/backend.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/conformance/faulty.h"
#include "tests/conformance/number_faults.h"
#include "tests/conformance/process_faults.h"

namespace bonsai::test {
namespace {

// -------- Devices

// What the CPU backend logs, by our name.
void log_faultily(void *context, bonsai_log_level level, const char *message) {
  const auto &device = *static_cast<const Device *>(context);
  std::string line = message;
  if (!device.is("logs without its name")) line = "faulty" + line.substr(std::min(line.find(':'), line.size()));
  if (device.is("logs two lines as one")) line += "\nand more";
  if (device.is("logs at a level of its own")) level = 4;
  device.log(device.log_context, level, device.is("logs nothing as a line") ? nullptr : line.c_str());
}

// Whom the last device logged to, where a fault remembers it.
std::pair<bonsai_log_fn, void *> &former_log() {
  static std::pair<bonsai_log_fn, void *> log;
  return log;
}

bonsai_status device_info(uint32_t index, bonsai_device_info *info, bonsai_error *error) {
  static constexpr bonsai_kv_dtype kDtypes[] = {BONSAI_KV_F32, 77};
  const bonsai_status status = cpu().device_info(index, info, error);
  if (status != BONSAI_OK) return status;
  if (has_entry_fault("lists a KV dtype of its own")) info->n_kv_dtypes = 2, info->kv_dtypes = kDtypes;
  if (has_entry_fault("has a feature of its own")) info->features |= 1u << 20;
  return BONSAI_OK;
}

// Opens the CPU device with all options but "fault".
bonsai_status device_open(uint32_t index, const bonsai_device_config *config, bonsai_device **device,
                          bonsai_error *error) {
  static constexpr bonsai_option kMapped = {.struct_size = sizeof kMapped, .key = "cpu.mapped", .value = "on"};
  auto made = std::make_unique<Device>();
  std::vector<const bonsai_option *> options;
  bonsai_device_config rest{};
  const bool readable = config && config->struct_size >= sizeof *config && config->options;
  for (uint32_t i = 0; readable && i < config->n_options; ++i) {
    const bonsai_option *option = config->options[i];
    if (option && option->key && std::string_view(option->key) == "fault") {
      made->fault = option->value;
      if (made->is("keeps memory that is not its own")) options.push_back(&kMapped);
    } else {
      options.push_back(option);
    }
  }
  const bool is_alone = options.size() == 1;
  if (made->is("heeds an option's first value") && !options.empty()) options.resize(1);
  if (made->is("takes any value") && is_alone && options[0] && options[0]->key) options.clear();
  if (readable) {
    rest = *config;
    rest.n_options = static_cast<uint32_t>(options.size());
    rest.options = options.data();
    made->log = config->log;
    made->log_context = config->log_context;
    rest.log = config->log ? log_faultily : nullptr;
    rest.log_context = made.get();
  }
  const bonsai_status status =
      cpu().device_open(index, readable ? &rest : config, device ? &made->inner : nullptr, error);
  if (status != BONSAI_OK) return status;
  commit_process_fault(made->fault, "device_open");
  if (const auto [log, context] = std::exchange(former_log(), {}); log) log(context, BONSAI_LOG_INFO, "faulty: opened");
  constexpr size_t kLeakedBytes = 512 << 10;
  if (made->is("leaks when it is opened")) made->leaked = std::memset(std::malloc(kLeakedBytes), 1, kLeakedBytes);
  *device = reinterpret_cast<bonsai_device *>(made.release());
  return BONSAI_OK;
}

void device_close(bonsai_device *device) {
  if (!device) return;
  const std::unique_ptr<Device> made(reinterpret_cast<Device *>(device));
  cpu().device_close(made->inner);
  if (made->is("logs to whom it logged before")) former_log() = {made->log, made->log_context};
}

bonsai_status dtype_support(bonsai_device *device, bonsai_dtype dtype, bonsai_weight_use *uses, bonsai_error *error) {
  const bonsai_status status = cpu().dtype_support(inner(device), dtype, uses, error);
  if (status == BONSAI_OK && has_fault(device, "does not claim Q8_0") && dtype == BONSAI_DTYPE_Q8_0) *uses = 0;
  if (status == BONSAI_OK && has_fault(device, "claims what does not exist") && dtype > 1000)
    *uses |= BONSAI_USE_MATRIX;
  return status;
}

bonsai_status device_status(bonsai_device *device, bonsai_device_status *status, bonsai_error *error) {
  return cpu().device_status(inner(device), status, error);
}

bonsai_status synchronize(bonsai_device *device, bonsai_error *error) {
  return cpu().synchronize(inner(device), error);
}

// What was measured, as a fault tells it.
void tell_faultily(Device &device, bonsai_profile &profile) {
  device.phases.clear();
  device.phase_pointers.clear();
  for (uint32_t i = 0; i < profile.n_phases; ++i) {
    bonsai_profile_phase phase = *profile.phases[i];
    if (device.is("measures gemv only") && std::string_view(phase.name) != "gemv") continue;
    if (device.is("takes milliseconds for seconds")) phase.seconds *= 1000;
    device.phases.push_back(phase);
  }
  for (const bonsai_profile_phase &phase : device.phases) device.phase_pointers.push_back(&phase);
  profile.n_phases = static_cast<uint32_t>(device.phases.size());
  profile.phases = device.phase_pointers.data();
}

bonsai_status profile(bonsai_device *device, bonsai_profile_action action, bonsai_profile *profile,
                      bonsai_error *error) {
  if (has_fault(device, "measures without being asked") && action == BONSAI_PROFILE_STOP) action = BONSAI_PROFILE_READ;
  const bonsai_status status = cpu().profile(inner(device), action, profile, error);
  const bool tells = has_fault(device, "measures gemv only") || has_fault(device, "takes milliseconds for seconds");
  if (status == BONSAI_OK && profile && tells) tell_faultily(*reinterpret_cast<Device *>(device), *profile);
  return status;
}

// -------- Weights

bonsai_status weight_upload(bonsai_device *device, const bonsai_weight_desc *desc, bonsai_weight **weight,
                            bonsai_weight_result *result, bonsai_error *error) {
  if (has_fault(device, "takes its own sizes only") && desc && desc->struct_size != sizeof *desc)
    return refuse(error, "not my size");
  if (has_fault(device, "takes columns in multiples of 64 only") && desc && desc->columns % 64 != 0)
    return refuse(error, "columns that are no multiple of 64", BONSAI_UNSUPPORTED);
  std::vector<const bonsai_weight_part *> parts;
  bonsai_weight_desc stepped{};
  if (has_fault(device, "steps through parts") && desc && desc->struct_size >= sizeof *desc && desc->parts) {
    for (uint32_t i = 0; i < desc->n_parts; ++i) parts.push_back(desc->parts[0] + i);
    stepped = *desc;
    stepped.parts = parts.data();
    desc = &stepped;
  }
  bonsai_weight_desc changed{};
  if (desc && desc->struct_size >= sizeof *desc) changed = *desc;
  if (has_fault(device, "keeps memory that is not its own")) changed.flags |= BONSAI_WEIGHT_BORROWED;
  if (has_fault(device, "multiplies with embeddings") && changed.uses == BONSAI_USE_EMBEDDING)
    changed.uses |= BONSAI_USE_MATRIX;
  const bool is_changed = changed.struct_size != 0;
  std::vector<std::byte> bytes;
  bonsai_weight_part decoded{};
  if (has_fault(device, "decodes scales as its caller computes") && is_changed && changed.n_parts == 1 &&
      changed.parts && changed.parts[0] && changed.parts[0]->dtype == BONSAI_DTYPE_Q8_0) {
    decoded = *changed.parts[0];
    bytes = with_decoded_scales(decoded);
    decoded.data = bytes.data();
    parts = {&decoded};
    changed.parts = parts.data();
    changed.flags = 0;
  }
  const bonsai_status status = cpu().weight_upload(inner(device), is_changed ? &changed : desc, weight, result, error);
  if (is_changed && !(desc->flags & BONSAI_WEIGHT_BORROWED) && result && status == BONSAI_OK) result->borrowed = 0;
  if (status == BONSAI_OK && result && has_fault(device, "says that it keeps what was not lent")) result->borrowed = 1;
  if (status == BONSAI_OK && result && has_fault(device, "miscounts a weight's bytes")) ++result->bytes;
  if (status == BONSAI_OK && result && has_fault(device, "writes its own sizes")) result->struct_size = sizeof *result;
  if (status == BONSAI_OK && result && has_fault(device, "writes behind structs"))
    std::memset(result + 1, 0, result->struct_size - sizeof *result);
  if (status == BONSAI_OK) reinterpret_cast<Device *>(device)->columns[*weight] = changed.columns;
  if (status == BONSAI_OK) return status;
  if (error && error->struct_size >= sizeof *error) {
    if (has_fault(device, "does not terminate messages")) std::memset(error->message, 'x', sizeof error->message);
    if (has_fault(device, "says nothing")) error->message[0] = '\0';
    if (has_fault(device, "says it in two lines")) std::strcpy(error->message, "one\ntwo");
    if (has_fault(device, "says its name first")) std::strcpy(error->message, "faulty: something is wrong");
  }
  if (has_fault(device, "prints what it refuses")) std::fputs("words of the plugin\n", stderr);
  if (has_fault(device, "writes outputs when it fails") && weight) *weight = nullptr;
  if (has_fault(device, "writes a result when it fails") && result) result->bytes = 0;
  return status;
}

void weight_free(bonsai_device *device, bonsai_weight *weight) {
  if (!has_fault(device, "does not free weights")) cpu().weight_free(inner(device), weight);
}

bonsai_status gemv(bonsai_device *device, const bonsai_gemv_args *args, bonsai_error *error) {
  if (device) commit_process_fault(reinterpret_cast<Device *>(device)->fault, "gemv");
  if (has_fault(device, "takes no vectors for some") && args && args->n == 0) return BONSAI_OK;
  bonsai_gemv_args changed{};
  std::vector<float> rounded;
  if (has_fault(device, "rounds as its caller does") && args && args->struct_size >= sizeof *args && args->weight) {
    rounded = rounded_vectors(args->x, args->n * reinterpret_cast<Device *>(device)->columns[args->weight]);
    changed = *args;
    changed.x = rounded.data();
  }
  const bonsai_status status = cpu().gemv(inner(device), rounded.empty() ? args : &changed, error);
  if (status != BONSAI_OK) return status;
  const uint64_t size = args->n * args->rows;
  if (has_fault(device, "forgets the last row") && args->rows % 16 == 1) args->y[size - 1] = 0;
  if (has_fault(device, "forgets the last vector") && args->n == 31)
    std::fill_n(args->y + size - args->rows, args->rows, 0.0f);
  if (has_fault(device, "writes beyond y")) args->y[size] = 1;
  if (has_fault(device, "adds more in company") && args->n > 1) args->y[0] *= 1.000001f;
  return status;
}

bonsai_backend_api make_table() {
  bonsai_backend_api table = cpu();
  table.name = "faulty";
  table.description = "the CPU backend with one fault";
  table.device_info = device_info;
  table.device_open = device_open;
  table.device_close = device_close;
  table.dtype_support = dtype_support;
  table.weight_upload = weight_upload;
  table.weight_free = weight_free;
  table.gemv = gemv;
  table.device_status = device_status;
  table.synchronize = synchronize;
  table.profile = profile;
  add_faulty_sessions(table);
  return table;
}

}  // namespace
}  // namespace bonsai::test

// They know no options yet: BONSAI_FAULTY_ENTRY names their fault.
[[gnu::constructor]] static void on_load() {
  if (const char *fault = std::getenv("BONSAI_FAULTY_ENTRY"))
    bonsai::test::commit_process_fault(fault, "a constructor");
}

extern "C" const bonsai_backend_api *bonsai_backend_entry(uint32_t host_major, uint32_t) {
  if (const char *fault = std::getenv("BONSAI_FAULTY_ENTRY")) bonsai::test::commit_process_fault(fault, "loading");
  using bonsai::test::has_entry_fault;
  static bonsai_backend_api table;
  table = bonsai::test::make_table();
  if (has_entry_fault("has no version")) table.version = nullptr;
  if (has_entry_fault("describes itself in two lines")) table.description = "the CPU backend\nwith one fault";
  if (has_entry_fault("has more functions")) table.struct_size += sizeof(void *);
  return host_major == BONSAI_ABI_MAJOR || has_entry_fault("serves any major version") ? &table : nullptr;
}
