#include "tools/plugin-check/lifetime_checks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tools/plugin-check/log_record.h"
#include "tools/plugin-check/matrix.h"
#include "tools/plugin-check/product.h"
#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

constexpr int kWarmUp = 10;  // lives until pools and caches may be full
constexpr int kLives = 40;   // that are looked at together
// An allocator's pools go on filling now and then. What leaks grows over all of these.
constexpr int kStretches = 3;
constexpr int64_t kAllowedGrowth = 4 << 20;
constexpr int64_t kAllowedMore = 4;  // open files or threads

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMemoryIsRecycled = false;  // AddressSanitizer keeps what was freed for a while
#else
constexpr bool kMemoryIsRecycled = true;
#endif

// What the process occupies now; 0 where the system does not say.
int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Entries of a directory; 0 where the system has none such.
int64_t count_entries(const char *directory) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(directory, error);
  return error ? 0 : std::distance(begin(entries), end(entries));
}

// What a process may have too many of, one /proc directory each.
struct Held {
  const char *what, *directory;
  int64_t before = 0;
};

// Threads that were told to end may take a moment.
void expect_not_grown(const Held &held) {
  const int64_t allowed = held.before + kAllowedMore;
  int64_t now = count_entries(held.directory);
  for (int i = 0; i < 100 && now > allowed; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    now = count_entries(held.directory);
  }
  expect(now <= allowed,
         "the process has {} {} after a device was opened, used and closed {} times, expected at most {}", now,
         held.what, kLives, allowed);
}

void expect_empty(const host::Device &device) {
  const bonsai_device_status status = status_of(device);
  expect(status.weight_bytes == 0 && status.borrowed_bytes == 0 && status.session_bytes == 0,
         "everything is freed, but device_status says {} bytes of weights, {} borrowed and {} of sessions",
         status.weight_bytes, status.borrowed_bytes, status.session_bytes);
}

// Uploads, multiplies, runs a session if there are any, and ends all of it but the device.
void work_on(host::Device &device, Context &context, const RandomModel &random, const Matrix &matrix) {
  {
    const host::Weight::Part part = {static_cast<bonsai_dtype>(matrix.format), matrix.rows, matrix.blocks()};
    const host::Weight weight =
        value_if_served(host::Weight::upload(device, "w", matrix.columns, {&part, 1}, BONSAI_USE_MATRIX, false));
    expect_multiplied(device, weight, matrix);
    if (context.api().session_create) {
      UploadedModel uploaded(device, random.model(), {.embedding = false});
      Session session(uploaded, usual_config(context, context.plainest_kv()), Path::kLayers);
      std::vector<uint32_t> blocks(blocks_for(8, session.config.block_size));
      std::iota(blocks.begin(), blocks.end(), 3u);
      session.logits(random_tokens(8, random.config().vocab, 1), 0, blocks);
    }
  }
  expect_empty(device);
}

// A device from its opening to its end, without a log.
void live(Context &context, const RandomModel &random, const Matrix &matrix) {
  work_on(*context.open_another(), context, random, matrix);
}

void check_leaks(Context &context) {
  const RandomModel random(narrow_shape(context.plainest_format()));
  Random numbers(1);
  const Matrix matrix = make_matrix(context.plainest_format(), 512, 512, Pattern::kRandom, numbers);
  const auto live_often = [&](int n) {
    for (int life = 0; life < n; ++life) live(context, random, matrix);
  };
  Held files = {"open files", "/proc/self/fd"}, threads = {"threads", "/proc/self/task"};
  live_often(kWarmUp);
  for (Held *held : {&files, &threads}) held->before = count_entries(held->directory);
  int64_t growth = kAllowedGrowth + 1;
  for (int stretch = 0; stretch < kStretches && growth > kAllowedGrowth; ++stretch) {
    const int64_t before = resident_bytes();
    live_often(kLives);
    growth = kMemoryIsRecycled ? resident_bytes() - before : 0;
  }
  expect(growth <= kAllowedGrowth,
         "the process grew by {} bytes while a device was opened, used and closed {} times, and so {} times before, "
         "expected at most {}",
         growth, kLives, kStretches - 1, kAllowedGrowth);
  expect_not_grown(files);
  expect_not_grown(threads);
}

// -------- What is printed

// That nothing is, from loading to the end, run() sees to.
void check_silence(Context &context) {
  const RandomModel random(narrow_shape(context.plainest_format()));
  Random numbers(1);
  live(context, random, make_matrix(context.plainest_format(), 512, 512, Pattern::kRandom, numbers));
}

// -------- What is logged

// A device that is told to log, through work, a refusal and its end. One behind it has no log, nor the former's.
void check_log(Context &context) {
  const RandomModel random(narrow_shape(context.plainest_format()));
  Random numbers(1);
  const Matrix matrix = make_matrix(context.plainest_format(), 512, 512, Pattern::kRandom, numbers);
  LogRecord log(context.device().backend());
  {
    const auto device =
        value_of(host::Device::open(log.backend(), context.plugin().device, context.plugin().options, {}));
    work_on(*device, context, random, matrix);
    bonsai_weight *weight = nullptr;
    context.api().weight_upload(device->handle(), nullptr, &weight, nullptr, nullptr);
  }
  log.end();
  live(context, random, matrix);
  log.expect_kept();
}

// -------- Declared memory

// What session_memory says of a model that names no weights.
uint64_t memory_without_weights(Context &context, UploadedModel &uploaded, const bonsai_session_config &config) {
  const std::deque<bonsai_weight_slice> slices = uploaded.slices;
  for (bonsai_weight_slice &slice : uploaded.slices) slice.weight = nullptr;
  bonsai_session_memory memory{};
  memory.struct_size = sizeof memory;
  bonsai_error error = empty_error();
  const bonsai_status status =
      context.api().session_memory(context.device().handle(), &uploaded.spec, &config, &memory, &error);
  std::copy(slices.begin(), slices.end(), uploaded.slices.begin());
  expect_ok("session_memory of a model without weights", status, error);
  return memory.device_bytes;
}

// What session_memory says beforehand is what device_status says that the session took: never more, hardly less.
void check_session_memory(Context &context) {
  context.need_sessions();
  skip_unless(context.api().device_status != nullptr, "device_status is not offered");
  const RandomModel random(narrow_shape(context.plainest_format()));
  UploadedModel uploaded(context.device(), random.model(), {.embedding = false});
  for (const bonsai_kv_dtype kv : context.info().kv_dtypes) {
    const bonsai_session_config config = usual_config(context, kv);
    bonsai_session_memory memory{};
    memory.struct_size = sizeof memory;
    bonsai_error error = empty_error();
    expect_served("session_memory",
                  context.api().session_memory(context.device().handle(), &uploaded.spec, &config, &memory, &error),
                  error);
    const uint64_t without_weights = memory_without_weights(context, uploaded, config);
    expect(without_weights == memory.device_bytes,
           "kv {}: session_memory says {} bytes, but {} where the slices name no weights", kv_name(kv),
           memory.device_bytes, without_weights);
    const uint64_t before = status_of(context.device()).session_bytes;
    const Session session(uploaded, config, Path::kLayers);
    const uint64_t taken = status_of(context.device()).session_bytes - before;
    expect(taken <= memory.device_bytes, "kv {}: the session took {} bytes, but session_memory said {}", kv_name(kv),
           taken, memory.device_bytes);
    expect(memory.device_bytes <= taken + taken / 4 + (1 << 20),
           "kv {}: session_memory said {} bytes, but the session took {}", kv_name(kv), memory.device_bytes, taken);
  }
}

// -------- Threads

template <class Work>
auto on_another_thread(Work work) {
  return std::async(std::launch::async, std::move(work)).get();
}

void compare_prompt(Stage &stage, uint64_t seed) {
  const std::vector<int32_t> tokens = stage.tokens(20, seed);
  Comparison comparison(stage.bound);
  stage.recycle_blocks();
  comparison.add_rows("a prompt", stage.session.logits(tokens, 0, stage.take_blocks(20)), stage.judge(tokens));
  comparison.finish("a prompt");
}

// The host serialises calls on one device, but each may come from another thread.
void check_changing_threads(Context &context) {
  context.need_sessions();
  const auto stage =
      on_another_thread([&] { return std::make_unique<Stage>(context, narrow_shape(context.plainest_format())); });
  for (uint64_t seed = 1; seed <= 3; ++seed) on_another_thread([&] { compare_prompt(*stage, seed); });
}

}  // namespace

void add_lifetime_checks(std::vector<Check> &checks) {
  checks.push_back(
      {"lifetime.leaks", "what is opened, uploaded and created can be ended without a trace", check_leaks});
  checks.push_back(
      {.name = "lifetime.silence",
       .promise = "nothing is printed, also while it is loaded, unless an earlier check in this process has done so",
       .run = check_silence,
       .wants_silence = true});
  checks.push_back(
      {"lifetime.log", "what is logged are lines that begin with the backend's name, until device_close", check_log});
  checks.push_back({"lifetime.session-memory", "session_memory says what session_create takes", check_session_memory});
  checks.push_back({"threads.changing", "each call may come from another thread", check_changing_threads});
}

}  // namespace bonsai::check
