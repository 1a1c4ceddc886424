// `bonsai bench`: how fast a model runs here, and how close that is to what the machine allows.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/available_cores.h"
#include "core/base/machine_memory.h"
#include "core/base/utf8.h"
#include "host/bench/handover.h"
#include "host/cli/bench_findings.h"
#include "host/cli/command.h"
#include "host/cli/generate_options.h"
#include "host/cli/model_options.h"
#include "host/cli/progress.h"
#include "host/cli/units.h"

namespace bonsai::cli {
namespace {

constexpr uint64_t kLeastStreamBytes = 4096;

Options bench_options() {
  Options options(
      "bench", "[-m FILE] [-p N] [-n N] [-d DEPTH] [--concurrency N,N...] [-t THREADS] [-r N] [OPTIONS]",
      "Measures tokens per second, after an untimed repetition, and holds them against this machine's limits,\n"
      "measured in the same run with as many threads.\n"
      "Decoding against the memory: the bytes that a token reads (of the file: layers, norms, head, one row\n"
      "of the embedding; and the keys and values of the positions up to its own, on average), what that makes\n"
      "per second, and the share of streaming: the fastest pass over 1 GiB, or over 4 times the last-level\n"
      "cache if that is more, right before and after each repetition; of the shares the median.\n"
      "Handover: the time that a cache line takes from one of two threads to the other, measured likewise:\n"
      "some 30 ns where cores share a cache, more than 100 where they are on different dies or sockets.\n"
      "Prompts against the arithmetic units: the operations of matrix products per second (a multiplication\n"
      "and an addition for each weight of the layers and token, and for the head's once), and the share of\n"
      "the peak: int8 dot products, or fused multiply-adds for F32, F16, BF16 and FP8, from registers.\n"
      "Limits and shares are left out, null in JSON, where the backend names no threads of this machine.\n"
      "JSON: {\"prefill\": {\"tokens_per_second\", \"stddev\", \"operations_per_second\", \"peak_share\", \"peak\":\n"
      "{\"operations_per_second\", \"threads\", \"int8\", \"fma\": each {\"operations_per_second\", \"one_thread\",\n"
      "\"instructions\"}}}, \"decode\": {\"tokens_per_second\", \"stddev\", \"bytes_per_token\", \"bandwidth\",\n"
      "\"bandwidth_share\", \"repetitions\": [{\"tokens_per_second\", \"stream_bandwidth\",\n"
      "\"handover\": [least, most]}]},\n"
      "\"stream_bandwidth\", \"backend\", \"kernel\", \"threads\"}; bandwidths in bytes per second, handover in\n"
      "seconds, null with one thread.\n"
      "--concurrency adds \"concurrency\": [{\"sequences\", \"tokens_per_second\", \"stddev\",\n"
      "\"prefill_share\"}]: all sequences together, and held against prompts in between. --profile adds\n"
      "\"profile\": {\"prefill\", \"decode\": each {\"seconds\", \"phases\": [{\"name\", \"seconds\", \"calls\",\n"
      "\"bytes\"}]}}.");
  add_engine_options(options, "as many as the measurement needs");
  options.value("prompt,p", "N", "tokens of the prompt (128)");
  options.value("predict,n", "N", "tokens to decode (32)");
  options.value("depth,d", "N", "tokens before the first decoded one (0)");
  options.value("concurrency", "N,N...", "also decode so many sequences at once, each of its own behind DEPTH tokens");
  add_preset_option(options);
  options.value("repetitions,r", "N", "times that each is measured (3)");
  options.value("report", "FILE.svg", "draw operations and bytes per second against what the machine allows");
  options.flag("profile", "show where the time goes, in one more repetition: the backend's phases and the host's");
  options.value("stream-bytes", "N", "measure the memory over N bytes instead; what a cache holds is read faster");
  return options;
}

// "1,2,4".
std::vector<uint32_t> read_concurrency(const Arguments &arguments) {
  constexpr uint64_t kMost = 1024;
  std::vector<uint32_t> all;
  const auto text = arguments.text("concurrency");
  if (!text) return all;
  std::istringstream numbers(*text + ',');  // so that no text at all is a word, and no number
  for (std::string word; std::getline(numbers, word, ',');) {
    const auto number = parse_number<uint64_t>(word);
    if (!number || *number == 0 || *number > kMost)
      throw UsageError(fmt::format("--concurrency: expected numbers from 1 to {} with commas between, found {}", kMost,
                                   bonsai::quoted(*text)));
    all.push_back(static_cast<uint32_t>(*number));
  }
  return all;
}

bench::Plan read_plan(const Arguments &arguments) {
  const auto count = [&](const char *name, uint32_t least, uint32_t otherwise) {
    constexpr uint32_t kMost = 1u << 30;
    return static_cast<uint32_t>(arguments.count(name, least, kMost).value_or(otherwise));
  };
  bench::Plan plan;
  plan.prompt_tokens = count("prompt", 1, plan.prompt_tokens);
  plan.decode_tokens = count("predict", 1, plan.decode_tokens);
  plan.depth = count("depth", 0, plan.depth);
  plan.repetitions = count("repetitions", 1, plan.repetitions);
  plan.concurrency = read_concurrency(arguments);
  plan.sampling = preset_option(arguments);
  return plan;
}

// The file's description, without its weights: a mapping costs nothing.
model::Model read_shape(const std::string &path) {
  auto model = model::load_model(path);
  if (!model) throw Failure(model.error().message);
  return *std::move(model);
}

// A context that holds the plan, unless one was asked for, which then has to.
EngineOptions read_engine_options(const Arguments &arguments, const bench::Plan &plan, Terminal &terminal) {
  EngineOptions options = engine_options(arguments, terminal);
  const uint32_t first_and_last = plan.concurrency.empty() ? 1 : 2;  // tokens around those that are timed
  const uint32_t decoded = plan.depth + plan.decode_tokens + first_and_last;
  const uint32_t needed = std::max(plan.prompt_tokens, decoded);
  const bool is_whole = options.context == EngineOptions::kWholeContext;
  if (options.context != 0 && options.context < needed)
    throw UsageError(
        fmt::format("--context: {} tokens do not hold the {} of this measurement", options.context, needed));
  if (options.context != 0 && !is_whole) return options;
  const uint32_t known = read_shape(options.model).config.context;
  if (plan.prompt_tokens > known)
    throw UsageError(fmt::format("--prompt: expected at most {}, which is all that the model knows, found {}", known,
                                 plan.prompt_tokens));
  if (decoded > known)
    throw UsageError(fmt::format(
        "--depth, --predict: expected at most {} tokens, which is all that the model knows, found {} ({} + {} + {} "
        "around them)",
        known, decoded, plan.depth, plan.decode_tokens, first_and_last));
  if (!is_whole) options.context = needed;
  return options;
}

// What two backends took turns at is no measurement of either.
void check_undisturbed(const std::string &backend, const BackendInfo &now) {
  if (now.name == backend) return;
  throw Failure(fmt::format("backend '{}' failed while it was measured, and '{}' went on: {}", backend, now.name,
                            now.failed_over));
}

// Threads of this machine that the backend computes with, to measure its limits with as many. A backend may be wrong
// about itself; nobody means as many as this.
uint32_t threads_of(const BackendInfo &backend) {
  constexpr uint32_t kMost = 4096;
  return backend.threads <= kMost ? backend.threads : 0;
}

Setting describe(const Engine &engine, const std::string &path) {
  const BackendInfo backend = engine.backend();
  const std::string file = path.substr(path.rfind('/') + 1);
  const std::string name = engine.model().name;
  return {.model = name.empty() ? file : fmt::format("{} ({})", name, file),
          .backend = backend.name,
          .version = backend.version,
          .device = backend.device,
          .kernel = backend.kernel,
          .threads = threads_of(backend)};
}

// Half of what is free at most: a machine that swaps measures its disk.
uint64_t bytes_to_stream(const Arguments &arguments, Terminal &terminal) {
  if (const auto bytes = arguments.count("stream-bytes", kLeastStreamBytes, uint64_t{1} << 40)) return *bytes;
  const uint64_t wanted = bench::stream_bytes();
  const uint64_t free = machine_memory().free_bytes, most = free / 2;
  if (free == 0 || wanted <= most) return wanted;  // 0: nobody knows
  const uint64_t reduced = std::max(most, kLeastStreamBytes);
  terminal.log.warn("too little memory is free to stream {}: measuring over {}, which caches may speed up",
                    format_bytes(wanted), format_bytes(reduced));
  return reduced;
}

template <class T>
T or_fail(Result<T> result) {
  if (!result) throw Failure(result.error().message);
  return *std::move(result);
}

uint32_t all_cores() { return static_cast<uint32_t>(available_cores()); }

// `own` as the repetitions found it.
Streams measure_streams(const Findings &findings, uint64_t bytes) {
  std::vector<double> speeds;
  for (const bench::Rates::Repetition &repetition : findings.rates.decode_repetitions)
    speeds.push_back(repetition.stream_bytes_per_second);
  const int threads = static_cast<int>(findings.setting.threads);
  const bench::StreamSpeed own = {.bytes_per_second = bench::median(speeds), .bytes = bytes, .threads = threads};
  if (findings.setting.threads == all_cores()) return {.own = own, .all_cores = own};
  return {.own = own, .all_cores = or_fail(bench::measure_stream(static_cast<int>(all_cores()), bytes))};
}

std::optional<Peaks::Peak> measure_peak(bench::Arithmetic arithmetic, uint32_t threads) {
  const auto one_thread = bench::measure_peak(arithmetic, 1);
  const auto own = threads == 1 ? one_thread : bench::measure_peak(arithmetic, static_cast<int>(threads));
  if (!own || !one_thread) return std::nullopt;
  return Peaks::Peak{.own = *own, .one_thread = *one_thread};
}

// More threads than cores compute no faster; they would only be measured worse.
std::optional<Peaks> measure_peaks(uint32_t threads) {
  const uint32_t at_once = std::min(threads, all_cores());
  const auto int8 = measure_peak(bench::Arithmetic::kInt8, at_once);
  const auto fma = measure_peak(bench::Arithmetic::kFma, at_once);
  if (!int8 || !fma) return std::nullopt;
  return Peaks{.int8 = *int8, .fma = *fma};
}

// Where the processor computes, its memory is measured meanwhile, over `stream_bytes`, and how far apart cores are.
void run(const Engine &engine, uint64_t stream_bytes, bool with_profiles, Findings &findings) {
  constexpr int kPasses = 2;
  const bench::Plan &plan = findings.plan;
  bench::Runner runner(engine, plan.sampling);
  std::optional<bench::StreamMemory> memory;
  const uint32_t threads = threads_of(engine.backend());
  if (threads > 0) memory.emplace(or_fail(bench::StreamMemory::create(static_cast<int>(threads), stream_bytes)));
  ProgressBar bar("measuring");
  const uint64_t n_later = plan.concurrency.size() * bench::n_passes_of_concurrency(plan);
  uint64_t n_done = 0, n_all = 0;
  bench::Observers observers = {.progress = [&](uint64_t done, uint64_t total) {
    n_done = done;
    n_all = total + n_later;
    bar.update(n_done, n_all);
  }};
  if (memory) observers.stream = [&] { return or_fail(memory->read(kPasses)).bytes_per_second; };
  if (threads > 1) observers.handover = bench::measure_handover;
  findings.rates = bench::measure(runner, plan, observers);
  for (const uint32_t n_sequences : plan.concurrency)
    findings.concurrency.push_back(
        bench::measure_concurrency(engine, runner, n_sequences, plan, [&] { bar.update(++n_done, n_all); }));
  if (with_profiles) {
    findings.profiles = {.prefill = runner.profile_prefill(plan.prompt_tokens),
                         .decode = runner.profile_decode(plan.depth, plan.decode_tokens)};
  }
}

// Better than after a long measurement.
void check_report(const Arguments &arguments) {
  const auto path = arguments.text("report");
  if (!path) return;
  if (const auto checked = check_replaceable(*path); !checked) throw Failure(checked.error().message);
  ModelFiles(arguments).check_spared(*path, "report");
}

Findings measure(const Arguments &arguments, Terminal &terminal) {
  Findings findings;
  findings.plan = read_plan(arguments);
  check_report(arguments);
  const bench::Plan &plan = findings.plan;
  const EngineOptions options = read_engine_options(arguments, plan, terminal);
  uint64_t stream_bytes = 0;
  {
    const Engine engine = load_engine(options);
    const std::string backend = engine.backend().name;
    stream_bytes = bytes_to_stream(arguments, terminal);
    run(engine, stream_bytes, arguments.flag("profile"), findings);
    check_undisturbed(backend, engine.backend());
    findings.setting = describe(engine, options.model);
  }
  const model::Model model = read_shape(options.model);
  findings.weight_bytes = bench::weight_bytes_per_token(model);
  findings.prefill = bench::prefill_work(model, options.kv, plan.prompt_tokens);
  findings.decode = bench::decode_work(model, options.kv, plan.depth, plan.decode_tokens);
  findings.prefill_products = bench::prefill_matrix_work(model, plan.prompt_tokens);
  if (const uint32_t threads = findings.setting.threads; threads > 0) {
    findings.streams = measure_streams(findings, stream_bytes);
    findings.peaks = measure_peaks(threads);
  }
  return findings;
}

void write_report(const std::string &path, const Findings &findings) {
  const auto written = write_whole_file(path, bench::to_svg(to_roofline(findings)));
  if (!written) throw Failure(written.error().message);
}

}  // namespace

int bench_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  const auto arguments = Arguments::parse(bench_options(), command_line, terminal);
  if (!arguments) return kSuccess;
  const Findings findings = measure(*arguments, terminal);
  // First: nobody need read the rest.
  if (const auto path = arguments->text("report")) write_report(*path, findings);
  if (arguments->flag("json"))
    terminal.out.write_json(to_json(findings));
  else
    terminal.out.write(to_text(findings));
  return kSuccess;
}

}  // namespace bonsai::cli
