#include "tools/plugin-check/argument_checks.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <limits>

#include "core/base/utf8.h"
#include "tools/plugin-check/environment.h"
#include "tools/plugin-check/matrix.h"
#include "tools/plugin-check/refusal.h"

namespace bonsai::check {
namespace {

template <class T>
T *sentinel() {  // a handle that no backend returns
  return reinterpret_cast<T *>(uintptr_t{0x5AA5});
}

// -------- The entry function

// What a table says in words.
void expect_line(const char *what, const char *text) {
  expect(text != nullptr && *text != '\0', "the table's {} is {}, expected a line of text", what,
         text ? "empty" : "NULL");
  expect(std::strpbrk(text, "\r\n") == nullptr, "the table's {} has more than one line: {}", what, quoted(text));
}

// No backend serves a major version that there is not yet, and each serves this one beside any minor version.
void check_entry(Context &context) {
  void *const library = dlopen(std::filesystem::absolute(context.plugin().path).c_str(), RTLD_NOW | RTLD_LOCAL);
  expect(library != nullptr, "the library does not load a second time: {}", library ? "" : dlerror());
  const auto function = reinterpret_cast<bonsai_backend_entry_fn>(dlsym(library, BONSAI_BACKEND_ENTRY_NAME));
  const auto entry = [function](uint32_t major, uint32_t minor) {
    const KeptEnvironment kept(BONSAI_BACKEND_ENTRY_NAME);
    return function(major, minor);
  };
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  expect(entry(kMost, 0) == nullptr, "the entry function returns a table for the major version {}, expected NULL",
         kMost);
  for (const uint32_t minor : {0u, kMost, BONSAI_ABI_MINOR}) {
    expect(entry(BONSAI_ABI_MAJOR, minor) != nullptr, "the entry function returns no table for version {}.{}",
           BONSAI_ABI_MAJOR, minor);
  }
  const bonsai_backend_api &table = *entry(BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  expect_line("version", table.version);
  expect_line("description", table.description);
}

// -------- Devices

uint32_t count_devices(Context &context) {
  uint32_t count = 0;
  bonsai_error error = empty_error();
  expect_ok("device_count", context.api().device_count(&count, &error), error);
  expect_ok("device_count without an error", context.api().device_count(&count, nullptr), error);
  return count;
}

// An info of which only the first bytes are the caller's.
void check_short_info(Context &context) {
  bonsai_device_info info;
  std::memset(&info, 'x', sizeof info);
  info.struct_size = 8;
  const Untouched<bonsai_device_info> behind(info);
  const bonsai_device_info before = info;
  context.api().device_info(0, &info, nullptr);
  expect(std::memcmp(reinterpret_cast<char *>(&info) + 8, reinterpret_cast<const char *>(&before) + 8,
                     sizeof info - 8) == 0,
         "device_info writes beyond a struct_size of 8");
}

// To a newer backend, what this program does not know may mean something.
void check_known_values(const Context &context) {
  if (context.is_newer()) return;
  constexpr bonsai_features kKnown =
      BONSAI_FEATURE_ADJUST | BONSAI_FEATURE_TOKEN_CHAINING | BONSAI_FEATURE_DETERMINISTIC | BONSAI_FEATURE_BORROWS;
  const bonsai_features unknown = context.info().features & ~kKnown;
  expect(unknown == 0, "device_info: the features have bits {:#x}, which version {}.{} does not define", unknown,
         BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  for (const bonsai_kv_dtype dtype : context.info().kv_dtypes) {
    expect(dtype <= BONSAI_KV_F32, "device_info lists KV dtype {}, which version {}.{} does not define", dtype,
           BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  }
}

void check_info(Context &context) {
  const bonsai_backend_api &api = context.api();
  const uint32_t count = count_devices(context);
  expect_refused("device_count of NULL", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.device_count(nullptr, error); });
  bonsai_device_info info{};
  info.struct_size = sizeof info;
  const Untouched untouched(info);
  for (const uint32_t index : {count, 0xFFFFFFFFu}) {
    const std::string what = fmt::format("device_info of device {} of {}", index, count);
    expect_refused(what, Expected::kInvalid, [&](bonsai_error *error) { return api.device_info(index, &info, error); });
    untouched.expect_kept(what);
  }
  expect_refused("device_info into NULL", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.device_info(0, nullptr, error); });
  check_short_info(context);
  check_known_values(context);
  const host::DeviceInfo &described = context.info();
  expect(!described.name.empty(), "device_info: the name is empty");
  for (const auto &option : described.options) {
    expect(!option.key.empty() && !option.help.empty(), "device_info: option '{}' lacks a key or a help line",
           option.key);
    expect(option.key != "device", "device_info lists the option 'device', which is the host's own");
  }
}

struct Opening {
  bonsai_option option{sizeof(bonsai_option), "no.such.option", "1"};
  const bonsai_option *options = &option;
  bonsai_device_config config{};
  uint32_t device = 0;

  Opening() {
    config.struct_size = sizeof config;
    config.n_options = 1;
    config.options = &options;
  }
};

constexpr Mistake<Opening> kOpenings[] = {
    {"an unknown option", Expected::kUnsupported, [](Opening &) {}},
    {"an option without a key", Expected::kInvalid, [](Opening &open) { open.option.key = nullptr; }},
    {"a short option", Expected::kInvalid, [](Opening &open) { open.option.struct_size = 8; }},
    {"an option that is NULL", Expected::kInvalid, [](Opening &open) { open.options = nullptr; }},
    {"options that are NULL", Expected::kInvalid, [](Opening &open) { open.config.options = nullptr; }},
    {"a short configuration", Expected::kInvalid, [](Opening &open) { open.config.struct_size = 4; }},
    {"device 4294967295", Expected::kInvalid, [](Opening &open) { open.device = 0xFFFFFFFFu; }},
};

void check_open(Context &context) {
  const bonsai_backend_api &api = context.api();
  bonsai_device *device = sentinel<bonsai_device>();
  const Untouched untouched(device);
  for (const auto &mistake : kOpenings) {
    Opening open;
    if (open.device != 0) open.config.n_options = 0;
    mistake.make(open);
    const std::string what = std::string("device_open with ") + mistake.what;
    expect_refused(what, mistake.expected,
                   [&](bonsai_error *error) { return api.device_open(open.device, &open.config, &device, error); });
    untouched.expect_kept(what);
  }
  expect_refused("device_open without a configuration", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.device_open(0, nullptr, &device, error); });
  Opening plain;
  plain.config.n_options = 0;
  expect_refused("device_open into NULL", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.device_open(0, &plain.config, nullptr, error); });
  const Opening unknown;
  bonsai_error error = empty_error();
  api.device_open(0, &unknown.config, &device, &error);
  expect(std::strstr(error.message, "no.such.option") != nullptr,
         "device_open: the message does not name the option: {}", error.message);
  api.device_close(nullptr);
}

bool lists_option(const Context &context, const std::string &key) {
  const auto &options = context.info().options;
  return std::any_of(options.begin(), options.end(), [&](const auto &option) { return option.key == key; });
}

// The last of an option's values counts. So one that may be bad has to be taken or refused alike, alone and behind one
// that is known to be good: that which the device was opened with. In front of that it does not matter.
void check_last_value(Context &context, const std::string &key) {
  const host::DeviceOption doubtful = {key, "no such value"};
  std::vector<host::DeviceOption> behind = context.plugin().options, alone;
  std::copy_if(behind.begin(), behind.end(), std::back_inserter(alone),
               [&](const host::DeviceOption &option) { return option.key != key; });
  alone.push_back(doubtful);
  std::vector<host::DeviceOption> in_front = behind;
  in_front.insert(in_front.begin(), doubtful);
  behind.push_back(doubtful);
  const auto of_alone = context.open_with(alone), of_behind = context.open_with(behind);
  const auto outcome = [](const auto &opened) { return opened ? "is taken" : "is refused"; };
  expect(of_alone.has_value() == of_behind.has_value(),
         "device_open: {}={} {}, but {} where another value of {} stands before it, expected the last to count", key,
         doubtful.value, outcome(of_alone), outcome(of_behind), key);
  const auto of_in_front = context.open_with(in_front);
  expect(of_in_front.has_value(),
         "device_open: {}={} is refused although another value of {} stands behind it, expected the last to count", key,
         doubtful.value, key);
  if (of_alone) return;
  expect(of_alone.error().status == BONSAI_INVALID_ARGUMENT,
         "device_open with a bad value of {}: status {}, expected BONSAI_INVALID_ARGUMENT", key,
         status_name(of_alone.error().status));
  expect(of_alone.error().message.find(key) != std::string::npos,
         "device_open with a bad value of {}: the message does not name it: {}", key, of_alone.error().message);
}

void check_options(Context &context) {
  bool any = false;
  for (const host::DeviceOption &option : context.plugin().options) {
    if (!lists_option(context, option.key)) continue;
    check_last_value(context, option.key);
    any = true;
  }
  skip_unless(any, "none of the backend's options was given, of which a good value would be known");
}

void check_status_calls(Context &context) {
  const bonsai_backend_api &api = context.api();
  bonsai_weight_use uses = 77;
  const Untouched untouched(uses);
  expect_refused("dtype_support of no device", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.dtype_support(nullptr, BONSAI_DTYPE_F32, &uses, error); });
  untouched.expect_kept("dtype_support of no device");
  expect_refused("dtype_support into NULL", Expected::kInvalid, [&](bonsai_error *error) {
    return api.dtype_support(context.device().handle(), BONSAI_DTYPE_F32, nullptr, error);
  });
  if (api.device_status) {
    bonsai_device_status status{};
    status.struct_size = sizeof status;
    expect_refused("device_status of no device", Expected::kInvalid,
                   [&](bonsai_error *error) { return api.device_status(nullptr, &status, error); });
    expect_refused("device_status into NULL", Expected::kInvalid,
                   [&](bonsai_error *error) { return api.device_status(context.device().handle(), nullptr, error); });
  }
  if (!api.synchronize) return;
  expect_refused("synchronize of no device", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.synchronize(nullptr, error); });
  bonsai_error error = empty_error();
  expect_ok("synchronize", api.synchronize(context.device().handle(), &error), error);
}

void check_devices(Context &context) {
  check_info(context);
  check_open(context);
  check_status_calls(context);
}

// -------- Weights

struct Upload {
  explicit Upload(const Matrix &matrix) {
    part.struct_size = sizeof part;
    part.dtype = static_cast<bonsai_dtype>(matrix.format);
    part.rows = matrix.rows;
    part.data = matrix.blocks().data();
    part.data_bytes = matrix.blocks().size();
    desc.struct_size = sizeof desc;
    desc.uses = BONSAI_USE_MATRIX;
    desc.n_parts = 1;
    desc.columns = matrix.columns;
    desc.parts = &parts;
  }
  bonsai_weight_part part{};
  const bonsai_weight_part *parts = &part;
  bonsai_weight_desc desc{};
};

constexpr Mistake<Upload> kUploads[] = {
    {"an unknown flag", Expected::kUnsupported, [](Upload &upload) { upload.desc.flags = 1u << 30; }},
    {"an unknown use", Expected::kUnsupported, [](Upload &upload) { upload.desc.uses = 1u << 30; }},
    {"no use", Expected::kInvalid, [](Upload &upload) { upload.desc.uses = 0; }},
    {"a short description", Expected::kInvalid, [](Upload &upload) { upload.desc.struct_size = 12; }},
    {"no parts", Expected::kInvalid, [](Upload &upload) { upload.desc.n_parts = 0; }},
    {"parts that are NULL", Expected::kInvalid, [](Upload &upload) { upload.desc.parts = nullptr; }},
    {"a part that is NULL", Expected::kInvalid, [](Upload &upload) { upload.parts = nullptr; }},
    {"a short part", Expected::kInvalid, [](Upload &upload) { upload.part.struct_size = 16; }},
    {"an unknown dtype", Expected::kUnsupported, [](Upload &upload) { upload.part.dtype = 1000000; }},
    {"no columns", Expected::kInvalid, [](Upload &upload) { upload.desc.columns = 0; }},
    {"columns that overflow", Expected::kEither, [](Upload &upload) { upload.desc.columns = uint64_t{1} << 62; }},
    {"no rows", Expected::kInvalid, [](Upload &upload) { upload.part.rows = 0; }},
    {"rows that overflow", Expected::kInvalid, [](Upload &upload) { upload.part.rows = uint64_t{1} << 62; }},
    {"a byte too few", Expected::kInvalid, [](Upload &upload) { --upload.part.data_bytes; }},
    {"a byte too many", Expected::kInvalid, [](Upload &upload) { ++upload.part.data_bytes; }},
    {"data that is NULL", Expected::kInvalid, [](Upload &upload) { upload.part.data = nullptr; }},
};

host::Weight upload(Context &context, const Matrix &matrix, bonsai_weight_use uses = BONSAI_USE_MATRIX) {
  const host::Weight::Part part = {static_cast<bonsai_dtype>(matrix.format), matrix.rows, matrix.blocks()};
  return value_if_served(host::Weight::upload(context.device(), "w", matrix.columns, {&part, 1}, uses, false));
}

void check_uploads(Context &context) {
  const bonsai_backend_api &api = context.api();
  bonsai_device *const device = context.device().handle();
  Random random(1);
  const Matrix matrix = make_matrix(context.plainest_format(), 4, 256, Pattern::kRandom, random);
  upload(context, matrix);  // what is refused below is refused for its mistake
  bonsai_weight *weight = sentinel<bonsai_weight>();
  bonsai_weight_result result = {.struct_size = sizeof result, .borrowed = 77, .bytes = 77};
  const Untouched untouched(weight);
  const Untouched untouched_result(result);
  for (const auto &mistake : kUploads) {
    Upload upload(matrix);
    mistake.make(upload);
    const std::string what = std::string("weight_upload with ") + mistake.what;
    expect_refused(what, mistake.expected, [&](bonsai_error *error) {
      return api.weight_upload(device, &upload.desc, &weight, &result, error);
    });
    untouched.expect_kept(what);
    untouched_result.expect_kept(what);
  }
  const Upload upload(matrix);
  expect_refused("weight_upload to no device", Expected::kInvalid, [&](bonsai_error *error) {
    return api.weight_upload(nullptr, &upload.desc, &weight, nullptr, error);
  });
  expect_refused("weight_upload of NULL", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.weight_upload(device, nullptr, &weight, nullptr, error); });
  untouched.expect_kept("weight_upload of NULL");
  expect_refused("weight_upload into NULL", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.weight_upload(device, &upload.desc, nullptr, nullptr, error); });
  api.weight_free(device, nullptr);
  const uint64_t bytes = status_of(context.device()).weight_bytes;
  expect(bytes == 0, "device_status says {} bytes of weights, but every upload was refused", bytes);
}

// Columns that are no whole blocks, in every format that has blocks.
void check_columns(Context &context) {
  for (const quant::FormatTraits &traits : quant::formats()) {
    if (traits.block_weights == 1 || !context.multiplies(traits.format)) continue;
    Random random(1);
    const Matrix matrix = make_matrix(traits.format, 2, traits.block_weights, Pattern::kRandom, random);
    Upload upload(matrix);
    upload.desc.columns = traits.block_weights + traits.block_weights / 2;
    bonsai_weight *weight = nullptr;
    expect_refused(fmt::format("weight_upload of {} with {} columns", traits.name, upload.desc.columns),
                   Expected::kEither, [&](bonsai_error *error) {
                     return context.api().weight_upload(context.device().handle(), &upload.desc, &weight, nullptr,
                                                        error);
                   });
  }
}

constexpr Mistake<bonsai_gemv_args> kProducts[] = {
    {"no vectors", Expected::kInvalid, [](bonsai_gemv_args &args) { args.n = 0; }},
    {"no rows", Expected::kInvalid, [](bonsai_gemv_args &args) { args.rows = 0; }},
    {"no weight", Expected::kInvalid, [](bonsai_gemv_args &args) { args.weight = nullptr; }},
    {"no x", Expected::kInvalid, [](bonsai_gemv_args &args) { args.x = nullptr; }},
    {"no y", Expected::kInvalid, [](bonsai_gemv_args &args) { args.y = nullptr; }},
    {"a row too many", Expected::kInvalid, [](bonsai_gemv_args &args) { ++args.rows; }},
    {"a first row too many", Expected::kInvalid, [](bonsai_gemv_args &args) { args.first_row = 1; }},
    {"rows that overflow", Expected::kInvalid,
     [](bonsai_gemv_args &args) { args.first_row = std::numeric_limits<uint64_t>::max(); }},
    {"short arguments", Expected::kInvalid, [](bonsai_gemv_args &args) { args.struct_size = 24; }},
};

void check_products(Context &context) {
  const bonsai_backend_api &api = context.api();
  Random random(1);
  const Matrix matrix = make_matrix(context.plainest_format(), 4, 256, Pattern::kRandom, random);
  const host::Weight weight = upload(context, matrix);
  const std::vector<float> x(matrix.columns, 1.0f);
  std::vector<float> y(matrix.rows + 1);
  const bonsai_gemv_args good = {.struct_size = sizeof good,
                                 .n = 1,
                                 .weight = weight.handle(),
                                 .first_row = 0,
                                 .rows = matrix.rows,
                                 .x = x.data(),
                                 .y = y.data()};
  for (const auto &mistake : kProducts) {
    bonsai_gemv_args args = good;
    mistake.make(args);
    expect_refused(std::string("gemv with ") + mistake.what, mistake.expected,
                   [&](bonsai_error *error) { return api.gemv(context.device().handle(), &args, error); });
  }
  expect_refused("gemv of NULL", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.gemv(context.device().handle(), nullptr, error); });
  expect_refused("gemv on no device", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.gemv(nullptr, &good, error); });
  if (context.looks_up(context.plainest_format())) {
    const host::Weight rows = upload(context, matrix, BONSAI_USE_EMBEDDING);
    bonsai_gemv_args args = good;
    args.weight = rows.handle();
    expect_refused("gemv with a weight that was uploaded as an embedding only", Expected::kInvalid,
                   [&](bonsai_error *error) { return api.gemv(context.device().handle(), &args, error); });
  }
  bonsai_error error = empty_error();
  expect_ok("gemv after bad calls", api.gemv(context.device().handle(), &good, &error), error);
}

void check_weights(Context &context) {
  check_uploads(context);
  check_columns(context);
  check_products(context);
}

}  // namespace

void add_argument_checks(std::vector<Check> &checks) {
  checks.push_back({"entry", "the entry function serves the ABI's major version, not any", check_entry});
  checks.push_back({"arguments.options", "of an option's values the last counts, and a bad one is refused by its key",
                    check_options});
  checks.push_back({"arguments.devices", "bad calls to devices are refused and change nothing", check_devices});
  checks.push_back({"arguments.weights", "bad weights and products are refused and change nothing", check_weights});
}

}  // namespace bonsai::check
