/* Backends with one property each, good or bad: CMakeLists.txt builds this file once for each, with the macros below.
 * A good one has one device, opens it, and logs the options that it was sent. */
#include <bonsai/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAKE_NAME
#define FAKE_NAME "good"
#endif
#ifndef FAKE_PRIORITY
#define FAKE_PRIORITY 0
#endif
#ifndef FAKE_MAJOR
#define FAKE_MAJOR BONSAI_ABI_MAJOR
#endif
#ifndef FAKE_MINOR
#define FAKE_MINOR BONSAI_ABI_MINOR
#endif
#ifndef FAKE_STRUCT_SIZE
#define FAKE_STRUCT_SIZE sizeof(bonsai_backend_api)
#endif
#ifndef FAKE_DEVICES
#define FAKE_DEVICES 1
#endif
#ifndef FAKE_N_OPTIONS
#define FAKE_N_OPTIONS 2
#endif
#ifndef FAKE_OPTIONS
#define FAKE_OPTIONS options
#endif
#ifdef FAKE_NULL_NAME
#define FAKE_TABLE_NAME NULL
#else
#define FAKE_TABLE_NAME FAKE_NAME
#endif
#ifndef FAKE_GEMV
#define FAKE_GEMV gemv
#endif

struct bonsai_device {
  int unused;
};

/* The rules that a careless one breaks: it has its caller round up and trap divisions by zero from then on, logs what
 * is no line, and at no level, and is free of more memory than it has. */
#if defined(FAKE_CARELESS) && defined(__x86_64__)
#include <immintrin.h>
static void spoil_environment(void) { _mm_setcsr((_mm_getcsr() | 0x4000u) & ~0x0200u); }
#elif defined(FAKE_CARELESS) && defined(__aarch64__)
static void spoil_environment(void) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)1 << 22)); }
#else
static void spoil_environment(void) {}
#endif

static bonsai_status failure(bonsai_error *error, bonsai_status status, const char *message) {
  if (error) {
    error->code = status;
    snprintf(error->message, sizeof error->message, "%s", message);
  }
  return status;
}

static const uint32_t n_devices = FAKE_DEVICES;

static bonsai_status device_count(uint32_t *count, bonsai_error *error) {
  spoil_environment();
  *count = n_devices;
  if (*count == 0) failure(error, BONSAI_OK, "libfake.so.1 is not installed");
  return BONSAI_OK;
}

static const bonsai_option_info speed = {sizeof(bonsai_option_info), FAKE_NAME ".speed", "how fast (default: 1)"};
static const bonsai_option_info colour = {sizeof(bonsai_option_info), FAKE_NAME ".colour", "which (default: red)"};
static const bonsai_option_info warm = {sizeof(bonsai_option_info), FAKE_NAME ".warm", "on: make ready (default: off)"};
static const bonsai_option_info keyless = {sizeof(bonsai_option_info), NULL, "what is meant?"};
static const bonsai_option_info equals = {sizeof(bonsai_option_info), "a=b", "where does the key end?"};
static const bonsai_option_info hosts = {sizeof(bonsai_option_info), "device", "whose is it?"};
static const bonsai_option_info *const options[] = {&speed, &colour, &warm};
static const bonsai_option_info *const nameless[] = {&speed, &keyless};
static const bonsai_option_info *const repeated[] = {&speed, &speed};
static const bonsai_option_info *const ambiguous[] = {&speed, &equals};
static const bonsai_option_info *const of_the_host[] = {&speed, &hosts};

static bonsai_status device_info(uint32_t index, bonsai_device_info *info, bonsai_error *error) {
  if (index >= n_devices) return failure(error, BONSAI_INVALID_ARGUMENT, "no such device");
#ifndef FAKE_BARE
  info->name = "fake\x1B[31m device\n";
#endif
#ifdef FAKE_BLOCK_SIZE
  static const uint32_t block_size = FAKE_BLOCK_SIZE;
  info->n_block_sizes = 1;
  info->block_sizes = &block_size;
#endif
#ifdef FAKE_CARELESS
  info->memory_total_bytes = 5;
  info->memory_free_bytes = UINT64_MAX;
#endif
  info->n_options = FAKE_N_OPTIONS;
  info->options = FAKE_OPTIONS;
  return BONSAI_OK;
}

static bonsai_status device_open(uint32_t index, const bonsai_device_config *config, bonsai_device **device,
                                 bonsai_error *error) {
#if defined(FAKE_OPEN_FAILS)
  (void)index, (void)config, (void)device;
  return failure(error, BONSAI_OUT_OF_MEMORY, "the device has 2 GB, 4 are needed");
#elif defined(FAKE_OPEN_FAILS_RUDELY)
  (void)index, (void)config, (void)device;
  if (error) memset(error->message, 'x', sizeof error->message); /* no NUL at the end */
  return 77;
#elif defined(FAKE_OPEN_SAYS_ESCAPES)
  (void)index, (void)config, (void)device;
  return failure(error, BONSAI_INTERNAL,
                 "a\x1B[2Jb\nc\td\xC2\x9B"
                 "e\xFF");
#elif defined(FAKE_OPEN_IS_SILENT)
  (void)index, (void)config, (void)device, (void)error;
  return BONSAI_INTERNAL;
#elif defined(FAKE_OPEN_GIVES_NULL)
  (void)index, (void)config, (void)device, (void)error;
  return BONSAI_OK;
#else
  char line[200];
  for (uint32_t i = 0; i < config->n_options; ++i) {
    if (strcmp(config->options[i]->value, "absurd") != 0) continue;
    snprintf(line, sizeof line, "%s is 'absurd', expected sense", config->options[i]->key);
    return failure(error, BONSAI_INVALID_ARGUMENT, line);
  }
  for (uint32_t i = 0; config->log && i < config->n_options; ++i) {
    snprintf(line, sizeof line, "device %u: %s is %s", index, config->options[i]->key, config->options[i]->value);
    config->log(config->log_context, BONSAI_LOG_DEBUG, line);
  }
#ifdef FAKE_CARELESS
  config->log(config->log_context, 99, "at a level of its own");
  config->log(config->log_context, BONSAI_LOG_INFO, NULL);
#endif
#ifdef FAKE_INFO
  if (config->log) config->log(config->log_context, BONSAI_LOG_INFO, FAKE_INFO);
#endif
  *device = calloc(1, sizeof **device);
  return *device ? BONSAI_OK : failure(error, BONSAI_OUT_OF_MEMORY, "host memory");
#endif
}

static void device_close(bonsai_device *device) {
  spoil_environment();
  free(device);
}

static bonsai_status dtype_support(bonsai_device *device, bonsai_dtype dtype, bonsai_weight_use *uses,
                                   bonsai_error *error) {
  (void)device, (void)dtype, (void)uses;
  return failure(error, BONSAI_UNSUPPORTED, "unknown dtype");
}

static bonsai_status weight_upload(bonsai_device *device, const bonsai_weight_desc *desc, bonsai_weight **weight,
                                   bonsai_weight_result *result, bonsai_error *error) {
  (void)device, (void)desc, (void)weight, (void)result;
  return failure(error, BONSAI_OUT_OF_MEMORY, "device memory: 12 bytes");
}

static void weight_free(bonsai_device *device, bonsai_weight *weight) { (void)device, (void)weight; }

#ifdef FAKE_UNDEFINED_SYMBOL
extern void a_symbol_that_nobody_has(void);
#endif

static inline bonsai_status gemv(bonsai_device *device, const bonsai_gemv_args *args, bonsai_error *error) {
  (void)device, (void)args;
#ifdef FAKE_UNDEFINED_SYMBOL
  a_symbol_that_nobody_has();
#endif
  return failure(error, BONSAI_INTERNAL, "a fake computes nothing");
}

#if defined(FAKE_SESSIONS) || defined(FAKE_HALF_LEVEL_1)
static bonsai_status session_memory(bonsai_device *device, const bonsai_model_spec *model,
                                    const bonsai_session_config *config, bonsai_session_memory *memory,
                                    bonsai_error *error) {
  (void)device, (void)model, (void)config, (void)memory;
  return failure(error, BONSAI_INTERNAL, "a fake computes nothing");
}
static bonsai_status session_create(bonsai_device *device, const bonsai_model_spec *model,
                                    const bonsai_session_config *config, bonsai_session **session,
                                    bonsai_error *error) {
  (void)device, (void)model, (void)config, (void)session;
  return failure(error, BONSAI_INTERNAL, "a fake computes nothing");
}
#endif

#ifdef FAKE_SESSIONS
static void session_destroy(bonsai_session *session) { (void)session; }
static bonsai_status layer_encode(bonsai_session *session, uint32_t layer, const bonsai_batch *batch, const float *in,
                                  float *out, bonsai_error *error) {
  (void)session, (void)layer, (void)batch, (void)in, (void)out;
  return failure(error, BONSAI_INTERNAL, "a fake computes nothing");
}
static bonsai_status lm_head(bonsai_session *session, const float *in, uint32_t n_rows,
                             const bonsai_output *const *outputs, uint32_t n_outputs, bonsai_error *error) {
  (void)session, (void)in, (void)n_rows, (void)outputs, (void)n_outputs;
  return failure(error, BONSAI_INTERNAL, "a fake computes nothing");
}
#endif

#if defined(FAKE_SUBMIT) || defined(FAKE_WAIT)
static bonsai_status forward_submit(bonsai_session *session, const bonsai_batch *batch,
                                    const bonsai_output *const *outputs, uint32_t n_outputs, uint64_t *ticket,
                                    bonsai_error *error) {
  (void)session, (void)batch, (void)outputs, (void)n_outputs, (void)ticket;
  return failure(error, BONSAI_INTERNAL, "a fake computes nothing");
}
#endif

#ifdef FAKE_WAIT
static bonsai_status forward_wait(bonsai_session *session, uint64_t ticket, bonsai_error *error) {
  (void)session, (void)ticket;
  return failure(error, BONSAI_INTERNAL, "a fake computes nothing");
}
#endif

#ifdef FAKE_CARELESS
static bonsai_status device_status(bonsai_device *device, bonsai_device_status *status, bonsai_error *error) {
  (void)device, (void)error;
  status->memory_total_bytes = 5;
  status->memory_free_bytes = UINT64_MAX;
  return BONSAI_OK;
}
#endif

#ifdef FAKE_N_PHASES
static const bonsai_profile_phase phase = {.struct_size = sizeof phase, .name = "a\nb", .seconds = 0.5, .calls = 3};
static const bonsai_profile_phase short_phase = {.struct_size = offsetof(bonsai_profile_phase, bytes), .name = "c"};
static const bonsai_profile_phase *const phases[] = {&phase, &short_phase};

static bonsai_status profile(bonsai_device *device, bonsai_profile_action action, bonsai_profile *profile,
                             bonsai_error *error) {
  (void)device, (void)action, (void)error;
  profile->n_phases = FAKE_N_PHASES;
  profile->phases = FAKE_PHASES;
  return BONSAI_OK;
}
#endif

#if defined(FAKE_ENTRY_IS_DATA)
__attribute__((visibility("default"))) int data_entry __asm__("bonsai_backend_entry") = 5;
#elif !defined(FAKE_NO_ENTRY)
/* A table of some later minor version, and what lies behind the table of an earlier one. */
static const struct {
  bonsai_backend_api api;
  void *later[8];
} table = {.api = {.struct_size = FAKE_STRUCT_SIZE,
                   .abi_major = FAKE_MAJOR,
                   .abi_minor = FAKE_MINOR,
                   .priority = FAKE_PRIORITY,
                   .name = FAKE_TABLE_NAME,
#ifndef FAKE_BARE
                   .version = "1.2.3",
                   .description = "a fake",
#endif
                   .device_count = device_count,
                   .device_info = device_info,
                   .device_open = device_open,
                   .device_close = device_close,
                   .dtype_support = dtype_support,
                   .weight_upload = weight_upload,
                   .weight_free = weight_free,
#if defined(FAKE_SESSIONS) || defined(FAKE_HALF_LEVEL_1)
                   .session_memory = session_memory,
                   .session_create = session_create,
#endif
#ifdef FAKE_SESSIONS
                   .session_destroy = session_destroy,
                   .layer_encode = layer_encode,
                   .lm_head = lm_head,
#endif
#if defined(FAKE_SUBMIT) || defined(FAKE_WAIT)
                   .forward_submit = forward_submit,
#endif
#ifdef FAKE_WAIT
                   .forward_wait = forward_wait,
#endif
#ifdef FAKE_CARELESS
                   .device_status = device_status,
#endif
#ifdef FAKE_N_PHASES
                   .profile = profile,
#endif
                   .gemv = FAKE_GEMV}};

const bonsai_backend_api *bonsai_backend_entry(uint32_t host_major, uint32_t host_minor) {
  (void)host_major, (void)host_minor;
#ifdef FAKE_NULL_TABLE
  return NULL;
#else
  return &table.api;
#endif
}
#endif
