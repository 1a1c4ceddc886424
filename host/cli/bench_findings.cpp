#include "host/cli/bench_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/utf8.h"
#include "host/cli/units.h"

namespace bonsai::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kNotMeasured = "not measured for this device";

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

Json to_json(const std::optional<double> &number) { return number ? Json(*number) : Json(nullptr); }

Json to_json(const Peaks::Peak &peak) {
  return {{"operations_per_second", peak.own.operations_per_second},
          {"one_thread", peak.one_thread.operations_per_second},
          {"instructions", peak.own.instructions}};
}

Json peak_to_json(const Findings &findings) {
  if (!findings.peaks) return nullptr;
  const Peaks &peaks = *findings.peaks;
  return {{"operations_per_second", peaks.operations_per_second(findings.prefill_products)},
          {"threads", peaks.int8.own.threads},
          {"int8", to_json(peaks.int8)},
          {"fma", to_json(peaks.fma)}};
}

Json prefill_to_json(const Findings &findings) {
  Json prefill = to_json(findings.rates.prefill);
  prefill["operations_per_second"] = findings.prefill_operations_per_second();
  prefill["peak_share"] = to_json(findings.peak_share());
  prefill["peak"] = peak_to_json(findings);
  return prefill;
}

// Nothing is handed over in no time.
bool has_handover(const bench::Rates::Repetition &repetition) { return repetition.handover_seconds.most > 0; }

Json handover_to_json(const bench::Rates::Repetition &repetition) {
  if (!has_handover(repetition)) return nullptr;
  return {repetition.handover_seconds.least, repetition.handover_seconds.most};
}

Json decode_to_json(const Findings &findings) {
  Json decode = to_json(findings.rates.decode);
  decode["bytes_per_token"] = findings.bytes_per_token();
  decode["bandwidth"] = findings.bandwidth();
  decode["bandwidth_share"] = to_json(findings.bandwidth_share());
  decode["repetitions"] = Json::array();
  for (const bench::Rates::Repetition &repetition : findings.rates.decode_repetitions)
    decode["repetitions"].push_back(
        {{"tokens_per_second", repetition.tokens_per_second},
         {"stream_bandwidth", findings.streams ? Json(repetition.stream_bytes_per_second) : Json(nullptr)},
         {"handover", handover_to_json(repetition)}});
  return decode;
}

std::string to_text(const bench::Rate &rate) {
  return fmt::format("{:.2f} ± {:.2f} tokens/s", rate.tokens_per_second, rate.stddev);
}

std::string thread_count(uint32_t threads) { return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"); }

std::string to_text(const bench::StreamSpeed &stream) {
  return fmt::format("{:.2f} GB/s with {} over {}", stream.bytes_per_second / 1e9,
                     thread_count(static_cast<uint32_t>(stream.threads)), format_bytes(stream.bytes));
}

std::string giga_operations(double per_second) { return fmt::format("{:.2f} Gop/s", per_second / 1e9); }

// "int8 930.20 Gop/s with 2 threads, 470.10 with 1, AVX-512 VNNI".
std::string to_text(const char *name, const Peaks::Peak &peak) {
  return fmt::format(
      "{} {} with {}{}, {}", name, giga_operations(peak.own.operations_per_second),
      thread_count(static_cast<uint32_t>(peak.own.threads)),
      peak.own.threads == 1 ? "" : fmt::format(", {:.2f} with 1", peak.one_thread.operations_per_second / 1e9),
      peak.own.instructions);
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

// The peak that the model's matrices are held against.
std::string name_of_peak(const bench::MatrixWork &work) {
  if (work.fma == 0) return "int8 peak";
  return work.int8 == 0 ? "FMA peak" : "int8 and FMA peaks, each by its operations";
}

std::string prefill_to_text(const Findings &findings) {
  const double operations = findings.prefill_operations_per_second();
  std::string text =
      fmt::format("prefill    {}, {} tokens\n", to_text(findings.rates.prefill), findings.plan.prompt_tokens);
  text += fmt::format("compute    {}, {:.2f} G multiply-accumulates/s", giga_operations(operations), operations / 2e9);
  if (!findings.peaks) return text + fmt::format("\npeak       {}\n", kNotMeasured);
  text += fmt::format(", {:.1f} % of the {}\n", 100 * *findings.peak_share(), name_of_peak(findings.prefill_products));
  text += fmt::format("peak       {}\n", to_text("int8", findings.peaks->int8));
  text += fmt::format("           {}\n", to_text("FMA", findings.peaks->fma));
  return text;
}

// "handover   26 to 174 ns from thread to thread around the repetitions".
std::string handover_to_text(std::span<const bench::Rates::Repetition> repetitions) {
  if (!std::ranges::all_of(repetitions, has_handover)) return "";
  const auto least_of = [](const auto &repetition) { return repetition.handover_seconds.least; };
  const auto most_of = [](const auto &repetition) { return repetition.handover_seconds.most; };
  return fmt::format("handover   {:.0f} to {:.0f} ns from thread to thread, around the repetitions\n",
                     1e9 * std::ranges::min(repetitions, {}, least_of).handover_seconds.least,
                     1e9 * std::ranges::max(repetitions, {}, most_of).handover_seconds.most);
}

std::string decode_to_text(const Findings &findings) {
  const bench::Plan &plan = findings.plan;
  std::string text = fmt::format("decode     {}, {} tokens behind {}\n", to_text(findings.rates.decode),
                                 plan.decode_tokens, plan.depth);
  text += fmt::format("per token  {} read: {} of weights, {} of keys and values\n",
                      format_bytes(findings.bytes_per_token()), format_bytes(findings.weight_bytes),
                      format_bytes(findings.bytes_per_token() - findings.weight_bytes));
  text += fmt::format("bandwidth  {:.2f} GB/s", findings.bandwidth() / 1e9);
  if (!findings.streams) return text + fmt::format("\nstreaming  {}\n", kNotMeasured);
  const Streams &streams = *findings.streams;
  text += fmt::format(", {:.1f} % of streaming\n", 100 * *findings.bandwidth_share());
  const auto [least, most] =
      std::ranges::minmax(findings.rates.decode_repetitions, {}, &bench::Rates::Repetition::stream_bytes_per_second);
  text += fmt::format("streaming  {}, {:.2f} to {:.2f} around the repetitions\n", to_text(streams.own),
                      least.stream_bytes_per_second / 1e9, most.stream_bytes_per_second / 1e9);
  if (streams.own.threads != streams.all_cores.threads)
    text += fmt::format("           {}\n", to_text(streams.all_cores));
  return text + handover_to_text(findings.rates.decode_repetitions);
}

Json concurrency_to_json(const Findings &findings) {
  Json all = Json::array();
  for (const bench::Concurrency &measured : findings.concurrency) {
    Json json = {{"sequences", measured.n_sequences}};
    json.update(to_json(measured.rate));
    json["prefill_share"] = measured.prefill_share;
    all.push_back(json);
  }
  return all;
}

std::string concurrency_to_text(const Findings &findings) {
  std::string text;
  for (const bench::Concurrency &measured : findings.concurrency)
    text += fmt::format("{:<10} {}, {} sequence{}, {:.1f} % of the prompt's\n", text.empty() ? "at once" : "",
                        to_text(measured.rate), measured.n_sequences, measured.n_sequences == 1 ? "" : "s",
                        100 * measured.prefill_share);
  return text;
}

bench::Roofline::Point to_point(std::string label, const bench::Work &work, uint32_t n_tokens,
                                const bench::Rate &rate) {
  const auto operations = static_cast<double>(work.operations);
  return {.label = fmt::format("{}, {:.1f} tokens/s", label, rate.tokens_per_second),
          .operations_per_byte = operations / static_cast<double>(work.bytes),
          .operations_per_second = operations / n_tokens * rate.tokens_per_second};
}

// The ceiling that the model's matrices are held against comes first: of a mix, the one of most operations.
void add_ceilings(const Findings &findings, bench::Roofline &roofline) {
  const auto ceiling = [](const char *name, const Peaks::Peak &peak) {
    const std::string label = fmt::format("{} {} with {}", name, giga_operations(peak.own.operations_per_second),
                                          thread_count(static_cast<uint32_t>(peak.own.threads)));
    return bench::Roofline::Ceiling{label, peak.own.operations_per_second};
  };
  roofline.ceilings = {ceiling("int8", findings.peaks->int8), ceiling("FMA", findings.peaks->fma)};
  if (findings.prefill_products.fma > findings.prefill_products.int8)
    std::swap(roofline.ceilings[0], roofline.ceilings[1]);
}

}  // namespace

double Peaks::operations_per_second(const bench::MatrixWork &work) const {
  return bench::peak_of(work, int8.own.operations_per_second, fma.own.operations_per_second);
}

std::optional<double> Findings::bandwidth_share() const {
  if (!streams) return std::nullopt;
  std::vector<double> shares;
  for (const bench::Rates::Repetition &repetition : rates.decode_repetitions)
    shares.push_back(static_cast<double>(bytes_per_token()) * repetition.tokens_per_second /
                     repetition.stream_bytes_per_second);
  return bench::median(std::move(shares));
}

double Findings::prefill_operations_per_second() const {
  return static_cast<double>(prefill_products.operations()) / plan.prompt_tokens * rates.prefill.tokens_per_second;
}

std::optional<double> Findings::peak_share() const {
  if (!peaks) return std::nullopt;
  return prefill_operations_per_second() / peaks->operations_per_second(prefill_products);
}

Json to_json(const Findings &findings) {
  std::optional<double> stream_bandwidth;
  if (findings.streams) stream_bandwidth = findings.streams->own.bytes_per_second;
  Json json = {{"prefill", prefill_to_json(findings)},
               {"decode", decode_to_json(findings)},
               {"stream_bandwidth", to_json(stream_bandwidth)},
               {"backend", findings.setting.backend},
               {"kernel", findings.setting.kernel},
               {"threads", findings.setting.threads}};
  if (!findings.concurrency.empty()) json["concurrency"] = concurrency_to_json(findings);
  if (findings.profiles)
    json["profile"] = {{"prefill", to_json(findings.profiles->prefill)},
                       {"decode", to_json(findings.profiles->decode)}};
  return json;
}

std::string to_text(const Findings &findings) {
  std::string text =
      fmt::format("model      {}\nbackend    {}\n", printable(findings.setting.model), to_text(findings.setting));
  text += prefill_to_text(findings) + decode_to_text(findings) + concurrency_to_text(findings);
  if (findings.profiles) {
    text += fmt::format("\nprefill    {}", to_text(findings.profiles->prefill));
    text += fmt::format("\ndecode     {}", to_text(findings.profiles->decode));
  }
  return text;
}

bench::Roofline to_roofline(const Findings &findings) {
  const bench::Plan &plan = findings.plan;
  bench::Roofline roofline;
  roofline.title = findings.setting.model;
  roofline.subtitle = to_text(findings.setting);
  if (findings.streams) {
    const auto &[own, all_cores] = *findings.streams;
    roofline.roofs.push_back({to_text(own), own.bytes_per_second});
    if (own.threads != all_cores.threads) roofline.roofs.push_back({to_text(all_cores), all_cores.bytes_per_second});
  } else {
    roofline.subtitle += fmt::format("; limits {}", kNotMeasured);
  }
  if (findings.peaks) add_ceilings(findings, roofline);
  roofline.points.push_back(to_point(fmt::format("decoding behind {} tokens", plan.depth), findings.decode,
                                     plan.decode_tokens, findings.rates.decode));
  roofline.points.push_back(to_point(fmt::format("prompt of {} tokens", plan.prompt_tokens), findings.prefill,
                                     plan.prompt_tokens, findings.rates.prefill));
  return roofline;
}

}  // namespace bonsai::cli
