// `bonsai bench`: how fast a model runs here, and how close that is to what the machine's memory allows.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "host/bench/measure.h"
#include "host/bench/roofline.h"
#include "host/bench/stream.h"
#include "host/bench/work.h"
#include "host/cli/command.h"
#include "host/cli/model_options.h"
#include "host/cli/progress.h"
#include "host/cli/units.h"

namespace bonsai::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLeastStreamBytes = 4096;

Options bench_options() {
  Options options(
      "bench", "[-m FILE] [-p N] [-n N] [-d DEPTH] [-t THREADS] [-r N] [OPTIONS]",
      "Measures tokens per second, after an untimed repetition, and what decoding does with the memory:\n"
      "the bytes that a token reads (of the file: layers, norms, head, one row of the embedding; and the\n"
      "keys and values of the positions before it, on average), what that makes per second, and the share\n"
      "of what as many threads of this machine can read, measured in the same run: the fastest of 5\n"
      "passes over 1 GiB, or over 4 times the last-level cache if that is more.\n"
      "JSON: {\"prefill\": {\"tokens_per_second\", \"stddev\"}, \"decode\": {\"tokens_per_second\", \"stddev\",\n"
      "\"bytes_per_token\", \"bandwidth\", \"bandwidth_share\"}, \"stream_bandwidth\", \"backend\", \"kernel\",\n"
      "\"threads\"}; bandwidths in bytes per second. --profile adds \"profile\": {\"prefill\", \"decode\": each\n"
      "{\"seconds\", \"phases\": [{\"name\", \"seconds\", \"calls\", \"bytes\"}]}}.");
  add_engine_options(options);
  options.value("prompt,p", "N", "tokens of the prompt (128)");
  options.value("predict,n", "N", "tokens to decode (32)");
  options.value("depth,d", "N", "tokens before the first decoded one (0)");
  options.value("repetitions,r", "N", "times that each is measured (3)");
  options.value("report", "FILE.svg", "draw operations and bytes per second against what the memory allows");
  options.flag("profile", "show where the time goes, in one more repetition: the backend's phases and the host's");
  options.value("stream-bytes", "N", "measure the memory over N bytes instead; what a cache holds is read faster");
  return options;
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
  return plan;
}

// A context that holds the plan, unless one was asked for, which then has to.
EngineOptions read_engine_options(const Arguments &arguments, const bench::Plan &plan, Terminal &terminal) {
  EngineOptions options = engine_options(arguments, terminal);
  const uint32_t needed = std::max(plan.prompt_tokens, plan.depth + plan.decode_tokens);
  if (options.context != 0 && options.context < needed)
    throw UsageError(
        fmt::format("--context: {} tokens do not hold the {} of this measurement", options.context, needed));
  if (options.context == 0) options.context = needed;
  return options;
}

// What ran, and on what.
struct Setting {
  std::string model, backend, version, device, kernel;
  uint32_t threads = 0;  // 0: the backend does not say
};

// After the measurement: a backend that failed in between has left it to the CPU.
Setting describe(const Engine &engine, const std::string &path) {
  const BackendInfo backend = engine.backend();
  const std::string file = path.substr(path.rfind('/') + 1);
  const std::string name = engine.model().name;
  return {.model = name.empty() ? file : fmt::format("{} ({})", name, file),
          .backend = backend.name,
          .version = backend.version,
          .device = backend.device,
          .kernel = backend.kernel,
          .threads = backend.threads};
}

// Half of what is free at most: a machine that swaps measures its disk.
uint64_t bytes_to_stream(const Arguments &arguments, Terminal &terminal) {
  if (const auto bytes = arguments.count("stream-bytes", kLeastStreamBytes, uint64_t{1} << 40)) return *bytes;
  const uint64_t wanted = bench::stream_bytes();
  const uint64_t most = bench::available_memory_bytes().value_or(2 * wanted) / 2;
  if (wanted <= most) return wanted;
  const uint64_t reduced = std::max(most, kLeastStreamBytes);
  terminal.log.warn("too little memory is free to stream {}: measuring over {}, which caches may speed up",
                    format_bytes(wanted), format_bytes(reduced));
  return reduced;
}

bench::StreamSpeed stream(uint32_t threads, uint64_t bytes) {
  const auto speed = bench::measure_stream(static_cast<int>(threads), bytes);
  if (!speed) throw Failure(speed.error().message);
  return *speed;
}

uint32_t all_cores() { return std::max(1u, std::thread::hardware_concurrency()); }

// All that was measured.
struct Findings {
  bench::Plan plan;
  Setting setting;
  bench::Rates rates;
  struct Profiles {
    bench::Profile prefill, decode;
  };
  std::optional<Profiles> profiles;             // if asked for
  bench::Work prefill, decode;                  // of one repetition
  uint64_t weight_bytes = 0;                    // of one token
  bench::StreamSpeed stream, stream_all_cores;  // equal where the backend uses all cores, or does not say

  uint64_t bytes_per_token() const { return decode.bytes / plan.decode_tokens; }
  double bandwidth() const { return static_cast<double>(bytes_per_token()) * rates.decode.tokens_per_second; }
  double bandwidth_share() const { return bandwidth() / stream.bytes_per_second; }
};

void run(const Engine &engine, bool with_profiles, Findings &findings) {
  const bench::Plan &plan = findings.plan;
  bench::Runner runner(engine);
  ProgressBar bar("measuring");
  findings.rates = bench::measure(runner, plan, [&](uint64_t done, uint64_t total) { bar.update(done, total); });
  if (with_profiles) {
    findings.profiles = {.prefill = runner.profile_prefill(plan.prompt_tokens),
                         .decode = runner.profile_decode(plan.depth, plan.decode_tokens)};
  }
}

// The file once more, without its weights: a mapping costs nothing.
model::Model read_shape(const std::string &path) {
  auto model = model::load_model(path);
  if (!model) throw Failure(model.error().message);
  return *std::move(model);
}

Findings measure(const Arguments &arguments, Terminal &terminal) {
  Findings findings;
  findings.plan = read_plan(arguments);
  const bench::Plan &plan = findings.plan;
  const EngineOptions options = read_engine_options(arguments, plan, terminal);
  {
    const Engine engine = load_engine(options);
    run(engine, arguments.flag("profile"), findings);
    findings.setting = describe(engine, options.model);
  }
  const model::Model model = read_shape(options.model);
  findings.weight_bytes = bench::weight_bytes_per_token(model);
  findings.prefill = bench::prefill_work(model, options.kv, plan.prompt_tokens);
  findings.decode = bench::decode_work(model, options.kv, plan.depth, plan.decode_tokens);

  const uint64_t bytes = bytes_to_stream(arguments, terminal);
  const uint32_t threads = findings.setting.threads;
  findings.stream_all_cores = stream(all_cores(), bytes);
  findings.stream = threads == 0 || threads == all_cores() ? findings.stream_all_cores : stream(threads, bytes);
  return findings;
}

Json to_json(const bench::Rate &rate) {
  return {{"tokens_per_second", rate.tokens_per_second}, {"stddev", rate.stddev}};
}

Json to_json(const bench::Profile &profile) {
  Json phases = Json::array();
  for (const ProfilePhase &phase : profile.phases)
    phases.push_back(
        {{"name", phase.name}, {"seconds", phase.seconds}, {"calls", phase.calls}, {"bytes", phase.bytes}});
  return {{"seconds", profile.seconds}, {"phases", phases}};
}

Json to_json(const Findings &findings) {
  Json decode = to_json(findings.rates.decode);
  decode["bytes_per_token"] = findings.bytes_per_token();
  decode["bandwidth"] = findings.bandwidth();
  decode["bandwidth_share"] = findings.bandwidth_share();
  Json json = {{"prefill", to_json(findings.rates.prefill)},
               {"decode", decode},
               {"stream_bandwidth", findings.stream.bytes_per_second},
               {"backend", findings.setting.backend},
               {"kernel", findings.setting.kernel},
               {"threads", findings.setting.threads}};
  if (findings.profiles)
    json["profile"] = {{"prefill", to_json(findings.profiles->prefill)},
                       {"decode", to_json(findings.profiles->decode)}};
  return json;
}

std::string to_text(const bench::Rate &rate) {
  return fmt::format("{:.2f} ± {:.2f} tokens/s", rate.tokens_per_second, rate.stddev);
}

std::string thread_count(uint32_t threads) { return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"); }

std::string to_text(const bench::StreamSpeed &stream) {
  return fmt::format("{:.2f} GB/s with {} over {}", stream.bytes_per_second / 1e9,
                     thread_count(static_cast<uint32_t>(stream.threads)), format_bytes(stream.bytes));
}

// "cpu 0.1.0, kernel avx2, 2 threads, AMD EPYC 7B13".
std::string to_text(const Setting &setting) {
  return fmt::format("{} {}{}{}, {}", setting.backend, setting.version,
                     setting.kernel.empty() ? "" : ", kernel " + setting.kernel,
                     setting.threads == 0 ? "" : ", " + thread_count(setting.threads), setting.device);
}

std::string to_text(const bench::Profile &profile) {
  std::string text = fmt::format("{:>10.3f} ms   share    calls  read at\n", 1e3 * profile.seconds);
  for (const ProfilePhase &phase : profile.phases) {
    text += fmt::format("  {:<9}{:>10.3f} ms  {:>4.1f} %", phase.name, 1e3 * phase.seconds,
                        100 * phase.seconds / profile.seconds);
    if (phase.calls > 0) text += fmt::format("  {:>7}", phase.calls);
    if (phase.bytes > 0) text += fmt::format("  {:.2f} GB/s", static_cast<double>(phase.bytes) / phase.seconds / 1e9);
    text += '\n';
  }
  return text;
}

std::string to_text(const Findings &findings) {
  const bench::Plan &plan = findings.plan;
  std::string text = fmt::format("model      {}\nbackend    {}\n", findings.setting.model, to_text(findings.setting));
  text += fmt::format("prefill    {}, {} tokens\n", to_text(findings.rates.prefill), plan.prompt_tokens);
  text += fmt::format("decode     {}, {} tokens behind {}\n", to_text(findings.rates.decode), plan.decode_tokens,
                      plan.depth);
  text += fmt::format("per token  {} read: {} of weights, {} of keys and values\n",
                      format_bytes(findings.bytes_per_token()), format_bytes(findings.weight_bytes),
                      format_bytes(findings.bytes_per_token() - findings.weight_bytes));
  text += fmt::format("bandwidth  {:.2f} GB/s, {:.1f} % of streaming\n", findings.bandwidth() / 1e9,
                      100 * findings.bandwidth_share());
  text += fmt::format("streaming  {}\n", to_text(findings.stream));
  if (findings.stream.threads != findings.stream_all_cores.threads)
    text += fmt::format("           {}\n", to_text(findings.stream_all_cores));
  if (findings.profiles) {
    text += fmt::format("\nprefill    {}", to_text(findings.profiles->prefill));
    text += fmt::format("\ndecode     {}", to_text(findings.profiles->decode));
  }
  return text;
}

bench::Roofline::Point to_point(std::string label, const bench::Work &work, uint32_t n_tokens,
                                const bench::Rate &rate) {
  const auto operations = static_cast<double>(work.operations);
  return {.label = fmt::format("{}, {:.1f} tokens/s", label, rate.tokens_per_second),
          .operations_per_byte = operations / static_cast<double>(work.bytes),
          .operations_per_second = operations / n_tokens * rate.tokens_per_second};
}

bench::Roofline to_roofline(const Findings &findings) {
  const bench::Plan &plan = findings.plan;
  bench::Roofline roofline;
  roofline.title = findings.setting.model;
  roofline.subtitle = to_text(findings.setting);
  roofline.roofs.push_back({to_text(findings.stream), findings.stream.bytes_per_second});
  if (findings.stream.threads != findings.stream_all_cores.threads)
    roofline.roofs.push_back({to_text(findings.stream_all_cores), findings.stream_all_cores.bytes_per_second});
  roofline.points.push_back(to_point(fmt::format("decoding behind {} tokens", plan.depth), findings.decode,
                                     plan.decode_tokens, findings.rates.decode));
  roofline.points.push_back(to_point(fmt::format("prompt of {} tokens", plan.prompt_tokens), findings.prefill,
                                     plan.prompt_tokens, findings.rates.prefill));
  return roofline;
}

void write_report(const std::string &path, const Findings &findings) {
  const auto written = bench::write_whole_file(path, bench::to_svg(to_roofline(findings)));
  if (!written) throw Failure(written.error().message);
}

}  // namespace

int bench_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  const auto arguments = Arguments::parse(bench_options(), command_line, terminal);
  if (!arguments) return kSuccess;
  const Findings findings = measure(*arguments, terminal);
  if (arguments->flag("json"))
    terminal.out.write_json(to_json(findings));
  else
    terminal.out.write(to_text(findings));
  if (const auto path = arguments->text("report")) write_report(*path, findings);
  return kSuccess;
}

}  // namespace bonsai::cli
