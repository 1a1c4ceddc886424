// bonsai-bench-turns: builds of a backend, or options of one, in turns within one process, where a machine's
// speed does not hold still. README.md beside this says how to read what it prints.
#include <bonsai/engine.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/standard_streams.h"
#include "host/bench/handover.h"
#include "tools/common/program.h"

namespace po = boost::program_options;
using namespace bonsai;

namespace {

struct Plan {
  std::string model;
  std::vector<std::string> plugins;
  uint32_t threads, prompt, decoded, rounds, processes;
};

// Where two cores were meanwhile.
enum class Distance : uint8_t { kNear, kFar, kChanged };

// One plugin's turn in a round. Comes through a pipe.
struct Turn {
  double prompt_seconds, decode_seconds;
  Distance distance;
};

using Round = std::vector<Turn>;  // in the plugins' order

// On one die of a processor a line takes less, between two more.
Distance distance_of(double handover_before, double handover_after) {
  constexpr double kBetween = 80e-9;
  if (std::max(handover_before, handover_after) < kBetween) return Distance::kNear;
  if (std::min(handover_before, handover_after) > kBetween) return Distance::kFar;
  return Distance::kChanged;
}

// "PATH,KEY=VALUE,...": a plugin, and options for it.
EngineOptions engine_options(const Plan &plan, std::string_view plugin) {
  const size_t end = plugin.find(',');
  EngineOptions options = {.model = plan.model,
                           .backend = std::string(plugin.substr(0, end)),
                           .backend_strict = true,
                           .threads = plan.threads,
                           .context = plan.prompt + plan.decoded + 1};
  for (size_t at = end; at != std::string_view::npos;) {
    const size_t next = plugin.find(',', at + 1);
    const std::string_view option = plugin.substr(at + 1, next - at - 1);
    const size_t equals = option.find('=');
    if (equals == std::string_view::npos) throw po::error(fmt::format("expected KEY=VALUE, found '{}'", option));
    options.backend_options.emplace_back(option.substr(0, equals), option.substr(equals + 1));
    at = next;
  }
  return options;
}

class Contender {
 public:
  Contender(const Plan &plan, const std::string &plugin)
      : plan_(plan), engine_(Engine::load(engine_options(plan, plugin))), session_(engine_.new_session()) {}

  Turn take_turn() {
    constexpr int kTokens = 200;  // that any vocabulary has
    std::vector<int32_t> tokens(plan_.prompt);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7919 % kTokens);
    GenerateOptions options;
    options.max_tokens = plan_.decoded + 1;
    options.sampling = *sampling_preset("greedy");
    options.ignore_eos = true;
    session_.truncate(0);
    session_.append_tokens(tokens);
    const double before = bench::measure_handover();
    const GenerationStats stats = session_.generate(options).stats;
    return {stats.prompt_seconds, stats.decode_seconds, distance_of(before, bench::measure_handover())};
  }

 private:
  const Plan &plan_;
  Engine engine_;
  Session session_;
};

// All rounds of one process. Another plugin begins each, and the first round is not counted.
std::vector<Round> run_rounds(const Plan &plan) {
  std::vector<Contender> contenders;
  contenders.reserve(plan.plugins.size());
  for (const std::string &plugin : plan.plugins) contenders.emplace_back(plan, plugin);
  std::vector<Round> rounds(plan.rounds + 1, Round(contenders.size()));
  for (size_t round = 0; round < rounds.size(); ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      const size_t next = (round + i) % contenders.size();
      // Threads of the one before may still watch for work.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      rounds[round][next] = contenders[next].take_turn();
    }
  }
  rounds.erase(rounds.begin());
  return rounds;
}

// False at the end, and when there is to be one.
bool read_round(int from, Round &round) {
  const size_t bytes = round.size() * sizeof(Turn);  // less than a pipe writes at once
  while (!tools::interrupted()) {
    const ssize_t n = read(from, round.data(), bytes);
    if (n >= 0 || errno != EINTR) return n == static_cast<ssize_t>(bytes);
  }
  return false;
}

// The rounds of a process of its own: where the system puts weights in memory makes a few percent, and stays.
std::vector<Round> run_process(const Plan &plan) {
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) throw std::runtime_error("cannot make a pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start a process");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it would go on, and take the cores of what is measured next
    tools::release_interrupts();
    close(ends[0]);
    try {
      for (const auto &round : run_rounds(plan)) {
        const size_t bytes = round.size() * sizeof(Turn);
        if (write(ends[1], round.data(), bytes) != static_cast<ssize_t>(bytes)) _exit(tools::kFailure);
      }
      _exit(0);
    } catch (const std::exception &error) {
      print_to_stderr("bonsai-bench-turns: {}\n", error.what());
      _exit(tools::kFailure);
    }
  }
  close(ends[1]);
  std::vector<Round> rounds;
  Round round(plan.plugins.size());
  while (read_round(ends[0], round)) rounds.push_back(round);
  close(ends[0]);
  if (tools::interrupted()) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (tools::interrupted()) std::exit(tools::interrupted_exit_code());
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) std::exit(tools::kFailure);  // it has said why
  if (status != 0) throw std::runtime_error("a process of measurements was ended by a signal");
  if (rounds.size() != plan.rounds)
    throw std::runtime_error(
        fmt::format("a process of measurements ended behind {} of {} rounds", rounds.size(), plan.rounds));
  return rounds;
}

double median(std::vector<double> numbers) {
  if (numbers.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(numbers);
  return (numbers[(numbers.size() - 1) / 2] + numbers[numbers.size() / 2]) / 2;
}

// How many times as fast a plugin is as the first, in the rounds in which both had the cores at this distance, or in
// all.
std::string compare(const std::vector<Round> &rounds, size_t plugin, double Turn::*seconds,
                    std::optional<Distance> distance = std::nullopt) {
  std::vector<double> ratios;
  for (const auto &round : rounds) {
    if (!distance || (round[0].distance == *distance && round[plugin].distance == *distance))
      ratios.push_back(round[0].*seconds / round[plugin].*seconds);
  }
  return fmt::format("{:6.3f} ({:3})", median(ratios), ratios.size());
}

// The same of what a quarter of each one's turns took at most: neighbours only ever make a turn slower.
double compare_quick(const std::vector<Round> &rounds, size_t plugin, double Turn::*seconds) {
  const auto quarter = [&](size_t of) {
    std::vector<double> all;
    for (const auto &round : rounds) all.push_back(round[of].*seconds);
    std::ranges::sort(all);
    return all.empty() ? std::numeric_limits<double>::quiet_NaN() : all[(all.size() - 1) / 4];
  };
  return quarter(0) / quarter(plugin);
}

std::string to_text(const Plan &plan, const std::vector<Round> &rounds) {
  std::string text = fmt::format(
      "medians of times as fast as {}, and of how many pairs; all | quick turns | cores near each other | far "
      "apart\n",
      plan.plugins[0]);
  for (size_t i = 1; i < plan.plugins.size(); ++i) {
    const auto of = [&](double Turn::*seconds) {
      return fmt::format("{} | {:6.3f} | {} | {}", compare(rounds, i, seconds), compare_quick(rounds, i, seconds),
                         compare(rounds, i, seconds, Distance::kNear), compare(rounds, i, seconds, Distance::kFar));
    };
    text += fmt::format("{}: decoding {}, prompts {}\n", plan.plugins[i], of(&Turn::decode_seconds),
                        of(&Turn::prompt_seconds));
  }
  return text;
}

po::options_description describe_options() {
  po::options_description options;
  auto add = options.add_options();
  const auto number = [](uint32_t otherwise) { return po::value<uint32_t>()->default_value(otherwise); };
  add("plugin", po::value<std::vector<std::string>>()->required(),
      "PATH[,KEY=VALUE...] of a plugin, with options for it; two or more of these");
  add("threads,t", number(2), "of every plugin");
  add("prompt,p", number(32), "tokens of the prompt");
  add("decode,n", number(24), "tokens that are decoded behind it");
  add("rounds,r", number(10), "turns of every plugin in a process");
  add("processes", number(4), "one after the other");
  return options;
}

int run(const tools::Program &, const po::variables_map &given) {
  const auto number = [&](const char *name) {
    constexpr uint32_t kMost = 1'000'000;  // "-1" is read as 4294967295
    const auto value = given[name].as<uint32_t>();
    if (value == 0 || value > kMost)
      throw po::error(fmt::format("--{}: expected a whole number from 1 to {}, found {}", name, kMost, value));
    return value;
  };
  const Plan plan = {given["model"].as<std::string>(),
                     given["plugin"].as<std::vector<std::string>>(),
                     number("threads"),
                     number("prompt"),
                     number("decode"),
                     number("rounds"),
                     number("processes")};
  if (plan.plugins.size() < 2) throw po::error("--plugin: expected two or more");
  for (const std::string &plugin : plan.plugins) engine_options(plan, plugin);  // throws where it makes no sense
  std::vector<Round> rounds;
  for (uint32_t i = 0; i < plan.processes; ++i) {
    const std::vector<Round> more = run_process(plan);
    rounds.insert(rounds.end(), more.begin(), more.end());
  }
  tools::print(to_text(plan, rounds));
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  tools::Program program;
  program.name = "bonsai-bench-turns";
  program.usage =
      "--plugin PATH --plugin PATH [options] MODEL.gguf\n"
      "Compares builds of a backend, or options of one, in turns within one process.\n";
  program.describe = describe_options;
  program.files = {"model"};
  program.files_expected = "expected a GGUF file";
  program.run = run;
  return tools::run_program(program, argc, argv);
}
