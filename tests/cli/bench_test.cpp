// `bonsai bench` on the seedling. Nothing here asserts a time: the memory is measured over so little that it costs
// none.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/gguf/writer.h"
#include "host/bench/work.h"
#include "tests/cli/program.h"
#include "tests/model/tiny_model.h"

namespace bonsai::cli {
namespace {

using nlohmann::ordered_json;

std::vector<std::string> keys(const ordered_json &json) {
  std::vector<std::string> names;
  for (const auto &[key, value] : json.items()) names.push_back(key);
  return names;
}
using Keys = std::vector<std::string>;

// A measurement of a moment.
Outcome run_bench(const std::vector<std::string> &more, const std::string &backend = "cpu") {
  std::vector<std::string> arguments = {
      "bench", "-m", seedling(),       "-p",    "8",         "-n",    "4",
      "-r",    "2",  "--stream-bytes", "65536", "--backend", backend, "--backend-strict"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments);
}

TEST(Bench, JsonHasExactlyTheKeysOfTheContract) {
  const Outcome outcome = run_bench({"--json", "-t", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const ordered_json result = ordered_json::parse(outcome.out);
  EXPECT_EQ(keys(result), (Keys{"prefill", "decode", "stream_bandwidth", "backend", "kernel", "threads"}));
  const ordered_json prefill = result["prefill"];
  EXPECT_EQ(keys(prefill), (Keys{"tokens_per_second", "stddev", "operations_per_second", "peak_share", "peak"}));
  EXPECT_EQ(keys(prefill["peak"]), (Keys{"operations_per_second", "threads", "int8", "fma"}));
  for (const char *arithmetic : {"int8", "fma"})
    EXPECT_EQ(keys(prefill["peak"][arithmetic]), (Keys{"operations_per_second", "one_thread", "instructions"}));
  EXPECT_EQ(keys(result["decode"]),
            (Keys{"tokens_per_second", "stddev", "bytes_per_token", "bandwidth", "bandwidth_share", "repetitions"}));
  for (const ordered_json &repetition : result["decode"]["repetitions"]) {
    EXPECT_EQ(keys(repetition), (Keys{"tokens_per_second", "stream_bandwidth", "handover"}));
    ASSERT_EQ(repetition["handover"].size(), 2u);
    EXPECT_GT(repetition["handover"][0], 0.0);
    EXPECT_GE(repetition["handover"][1], repetition["handover"][0]);
  }
  EXPECT_EQ(result["backend"], "cpu");
  EXPECT_EQ(result["threads"], 2);
  EXPECT_FALSE(result["kernel"].get<std::string>().empty());
}

TEST(Bench, TheNumbersFollowFromEachOther) {
  const Outcome outcome = run_bench({"--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const ordered_json result = ordered_json::parse(outcome.out), decode = result["decode"];
  EXPECT_GT(result["prefill"]["tokens_per_second"], 0.0);
  EXPECT_GE(result["prefill"]["stddev"], 0.0);
  EXPECT_GT(decode["tokens_per_second"], 0.0);
  EXPECT_GT(result["stream_bandwidth"], 0.0);
  const double bandwidth = decode["bytes_per_token"].get<double>() * decode["tokens_per_second"].get<double>();
  EXPECT_DOUBLE_EQ(decode["bandwidth"].get<double>(), bandwidth);
  // Of two repetitions the median is the mean.
  ASSERT_EQ(decode["repetitions"].size(), 2u);
  const auto sum = [&](const auto &value) { return value(decode["repetitions"][0]) + value(decode["repetitions"][1]); };
  const auto speed = [](const ordered_json &repetition) { return repetition["tokens_per_second"].get<double>(); };
  const auto stream = [](const ordered_json &repetition) { return repetition["stream_bandwidth"].get<double>(); };
  EXPECT_DOUBLE_EQ(decode["tokens_per_second"].get<double>(), sum(speed) / 2);
  EXPECT_DOUBLE_EQ(result["stream_bandwidth"].get<double>(), sum(stream) / 2);
  EXPECT_DOUBLE_EQ(decode["bandwidth_share"].get<double>(),
                   decode["bytes_per_token"].get<double>() *
                       sum([&](const ordered_json &repetition) { return speed(repetition) / stream(repetition); }) / 2);
}

// The seedling's matrices are 1-bit: 8 prompt tokens go through its layers and one through its head.
TEST(Bench, ThePromptIsHeldAgainstTheInt8Peak) {
  const Outcome outcome = run_bench({"--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const ordered_json prefill = ordered_json::parse(outcome.out)["prefill"], peak = prefill["peak"];
  EXPECT_DOUBLE_EQ(peak["operations_per_second"].get<double>(), peak["int8"]["operations_per_second"].get<double>());
  EXPECT_GT(peak["int8"]["one_thread"], 0.0);
  EXPECT_GT(peak["fma"]["operations_per_second"], 0.0);
  EXPECT_DOUBLE_EQ(prefill["peak_share"].get<double>(),
                   prefill["operations_per_second"].get<double>() / peak["operations_per_second"].get<double>());
  const auto model = model::load_model(seedling());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_DOUBLE_EQ(
      prefill["operations_per_second"].get<double>(),
      bench::prefill_matrix_work(*model, 8).operations() / 8.0 * prefill["tokens_per_second"].get<double>());
}

// More threads than cores compute no faster.
TEST(Bench, ThePeakIsThatOfNoMoreThreadsThanCores) {
  const Outcome outcome = run_bench({"--json", "-t", "64"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const ordered_json result = ordered_json::parse(outcome.out);
  EXPECT_LE(result["prefill"]["peak"]["threads"], std::max(1u, std::thread::hardware_concurrency()));
}

// The deeper, the more keys and values: in F16 2 bytes, in Q8_0 34 for 32, of each of a position's elements.
TEST(Bench, BytesPerTokenGrowWithDepthAndTheCachesType) {
  const auto bytes = [](const std::vector<std::string> &more) {
    std::vector<std::string> arguments = {"--json", "-n", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_program([&] {
      std::vector<std::string> all = {"bench", "-m", seedling(), "-p", "1", "-r", "1", "--stream-bytes", "4096"};
      all.insert(all.end(), arguments.begin(), arguments.end());
      return all;
    }());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return ordered_json::parse(outcome.out)["decode"]["bytes_per_token"].get<uint64_t>();
  };
  const uint64_t shallow = bytes({}), deep = bytes({"-d", "64"}), deep_q8 = bytes({"-d", "64", "--kv", "q8_0"});
  const uint64_t position = (deep - shallow) / 64;
  EXPECT_EQ(deep, shallow + 64 * position);
  EXPECT_EQ(deep_q8, deep - 65 * position + 65 * (position / 64 * 34));
}

TEST(Bench, OneRepetitionDoesNotDeviate) {
  const Outcome outcome =
      run_program({"bench", "-m", seedling(), "-p", "2", "-n", "2", "-r", "1", "--stream-bytes", "4096", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const ordered_json result = ordered_json::parse(outcome.out);
  EXPECT_EQ(result["prefill"]["stddev"], 0.0);
  EXPECT_EQ(result["decode"]["stddev"], 0.0);
}

TEST(Bench, PeopleGetATableOnStdout) {
  const Outcome outcome = run_bench({"-d", "16", "-t", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char *part : {"model      ",
                           "seedling-q1_0.gguf",
                           "\nbackend    cpu ",
                           ", kernel ",
                           ", 1 thread, ",
                           "\nprefill    ",
                           "tokens/s, 8 tokens\n",
                           "\ncompute    ",
                           " Gop/s, ",
                           " G multiply-accumulates/s, ",
                           " % of the int8 peak\n",
                           "\npeak       int8 ",
                           "\n           FMA ",
                           " Gop/s with 1 thread, ",
                           "\ndecode     ",
                           "tokens/s, 4 tokens behind 16\n",
                           "\nper token  ",
                           " of weights, ",
                           " of keys and values\n",
                           "\nbandwidth  ",
                           " % of streaming\n",
                           "\nstreaming  ",
                           " GB/s with 1 thread over 64.0 KiB, ",
                           " around the repetitions\n"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
}

TEST(Bench, SaysHowFarApartSeveralThreadsAre) {
  const Outcome alone = run_bench({"-t", "1"}), two = run_bench({"-t", "2"});
  EXPECT_EQ(alone.out.find("\nhandover "), std::string::npos) << alone.out;
  EXPECT_NE(two.out.find("\nhandover   "), std::string::npos) << two.out;
  EXPECT_NE(two.out.find(" ns from thread to thread, around the repetitions\n"), std::string::npos) << two.out;
  EXPECT_EQ(ordered_json::parse(run_bench({"-t", "1", "--json"}).out)["decode"]["repetitions"][0]["handover"], nullptr);
}

// Promise: what a file calls itself does not reach the terminal as it is.
TEST(Bench, AHostileNameIsShownHarmlessly) {
  test::TinyModel model;
  model.metadata = [](gguf::Writer &writer) { writer.set_string("general.name", "a\n\x1B[31m"); };
  const test::TinyModelFile file(model);
  const Outcome outcome =
      run_program({"bench", "-m", file.path(), "-p", "8", "-n", "4", "-r", "1", "--stream-bytes", "65536"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("model      a\\x0a\\x1b[31m (")) << outcome.out;
}

// The template does not say that this machine's processor computes, so neither its memory nor its peaks are a limit.
TEST(Bench, ABackendWithoutThreadsIsNotHeldAgainstThisMachine) {
  const Outcome outcome = run_bench({"--json"}, backend_file("template"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const ordered_json result = ordered_json::parse(outcome.out);
  EXPECT_EQ(result["backend"], "template");
  EXPECT_EQ(result["threads"], 0);
  EXPECT_GT(result["prefill"]["operations_per_second"], 0.0);
  EXPECT_GT(result["decode"]["bandwidth"], 0.0);
  EXPECT_EQ(keys(result), (Keys{"prefill", "decode", "stream_bandwidth", "backend", "kernel", "threads"}));
  EXPECT_TRUE(result["prefill"]["peak"].is_null() && result["prefill"]["peak_share"].is_null());
  EXPECT_TRUE(result["decode"]["bandwidth_share"].is_null() && result["stream_bandwidth"].is_null());
  for (const ordered_json &repetition : result["decode"]["repetitions"])
    EXPECT_TRUE(repetition["stream_bandwidth"].is_null());
}

TEST(Bench, PeopleReadThatItsLimitsWereNotMeasured) {
  const Outcome outcome = run_bench({}, backend_file("template"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char *part : {" G multiply-accumulates/s\npeak       not measured for this device\n",
                           " GB/s\nstreaming  not measured for this device\n"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
  EXPECT_EQ(outcome.out.find(" %"), std::string::npos) << outcome.out;
}

TEST(Bench, ItsReportHasPointsButNoLimits) {
  const std::string path = write_file("elsewhere.svg", "");
  const Outcome outcome = run_bench({"--report", path}, backend_file("template"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string svg = read_file(path);
  for (const char *label : {"; limits not measured for this device<", ">prompt of 8 tokens, "})
    EXPECT_NE(svg.find(label), std::string::npos) << label << " in " << svg;
  EXPECT_EQ(svg.find("GB/s"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("Gop/s"), std::string::npos) << svg;
}

TEST(Bench, TheReportIsAPictureOfTheRun) {
  const std::string path = write_file("report.svg", "an older report");
  const Outcome outcome = run_bench({"-t", "1", "--report", path});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\ndecode     "), std::string::npos) << "the table comes all the same";
  const std::string svg = read_file(path);
  EXPECT_EQ(svg.rfind("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg ", 0), 0u) << svg;
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  for (const char *label : {"seedling-q1_0.gguf", ">cpu ", ", kernel ", ", 1 thread, ", ">operations per byte<",
                            ">operations per second<", " GB/s with 1 thread over 64.0 KiB<", ">int8 ", ">FMA ",
                            " Gop/s with 1 thread<", ">decoding behind 0 tokens, ", ">prompt of 8 tokens, "})
    EXPECT_NE(svg.find(label), std::string::npos) << label << " in " << svg;
}

TEST(Bench, AProfileAddsItsPhasesToTheJson) {
  const Outcome outcome = run_bench({"--json", "--profile"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const ordered_json result = ordered_json::parse(outcome.out);
  EXPECT_EQ(keys(result), (Keys{"prefill", "decode", "stream_bandwidth", "backend", "kernel", "threads", "profile"}));
  EXPECT_EQ(keys(result["profile"]), (Keys{"prefill", "decode"}));
  for (const auto &profile : result["profile"]) {
    EXPECT_EQ(keys(profile), (Keys{"seconds", "phases"}));
    double seconds = 0;
    for (const auto &phase : profile["phases"]) {
      EXPECT_EQ(keys(phase), (Keys{"name", "seconds", "calls", "bytes"}));
      seconds += phase["seconds"].get<double>();
    }
    EXPECT_LE(seconds, profile["seconds"].get<double>() * (1 + 1e-9));
  }
}

TEST(Bench, AProfileIsTwoMoreTablesForPeople) {
  const Outcome outcome = run_bench({"--profile"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char *part :
       {"\n\nprefill   ", "\n\ndecode    ", "\n  attention ", "\n  qkv ", "\n  o ", "\n  gate_up ", "\n  down ",
        "\n  norm ", "\n  rope ", "\n  head ", "\n  selection ", "\n  host ", " GB/s\n"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
}

TEST(Bench, ConcurrencyIsMeasuredForEachNumberOfSequences) {
  const Outcome outcome = run_bench({"--json", "--concurrency", "1,3", "-d", "40"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const ordered_json result = ordered_json::parse(outcome.out), all = result["concurrency"];
  EXPECT_EQ(keys(result),
            (Keys{"prefill", "decode", "stream_bandwidth", "backend", "kernel", "threads", "concurrency"}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["sequences"], 1);
  EXPECT_EQ(all[1]["sequences"], 3);
  for (const auto &measured : all) {
    EXPECT_EQ(keys(measured), (Keys{"sequences", "tokens_per_second", "stddev", "prefill_share"}));
    EXPECT_GT(measured["tokens_per_second"], 0.0);
    EXPECT_GT(measured["prefill_share"], 0.0) << "of the prompts in between, whose speed is not shown";
  }
}

TEST(Bench, ConcurrencyIsALineForEachNumber) {
  const Outcome outcome = run_bench({"--concurrency", "1,2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char *part :
       {"\nat once    ", " tokens/s, 1 sequence, ", " tokens/s, 2 sequences, ", " % of the prompt's\n"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
}

TEST(Bench, TokensAreChosenByThePreset) {
  EXPECT_EQ(run_bench({"--preset", "greedy", "--concurrency", "4"}).exit_code, 0);
  const Outcome outcome = run_bench({"--preset", "wild"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err,
            "bonsai bench: --preset: expected greedy, balanced, creative or code, found 'wild' (see 'bonsai bench "
            "--help')\n");
}

TEST(BenchRefuses, AMeasurementThatTwoBackendsTookTurnsAt) {
  const Outcome outcome =
      run_program({"bench", "-m", seedling(), "-p", "4", "-n", "4", "-r", "2", "-t", "1", "--stream-bytes", "65536",
                   "--backend", BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so", "--backend-opt",
                   "fail.function=forward_wait", "--backend-opt", "fail.at=6"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(
      outcome.err.find("bonsai bench: backend 'failing' failed while it was measured, and 'cpu' went on: failing: "
                       "injected into forward_wait (internal error)\n"),
      std::string::npos)
      << outcome.err;
}

TEST(BenchRefuses, AConcurrencyThatIsNone) {
  for (const std::string text : {"", "0", "1,,2", "1,", "two", "1025", "1 2"}) {
    const Outcome outcome = run_bench({"--concurrency", text});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.err, "bonsai bench: --concurrency: expected numbers from 1 to 1024 with commas between, found '" +
                               text + "' (see 'bonsai bench --help')\n");
  }
}

TEST(BenchRefuses, AReportThatCannotBeWrittenBeforeItMeasures) {
  const Outcome outcome = run_bench({"--report", "/nowhere/report.svg"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "bonsai bench: /nowhere/report.svg: cannot create a file in /nowhere: No such file or directory\n");
}

TEST(BenchRefuses, AContextThatDoesNotHoldTheMeasurement) {
  const Outcome outcome = run_program({"bench", "-m", seedling(), "-d", "100", "-n", "29", "-c", "128"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(
      outcome.err,
      "bonsai bench: --context: 128 tokens do not hold the 130 of this measurement (see 'bonsai bench --help')\n");
}

TEST(BenchRefuses, MoreTokensThanTheModelKnows) {
  const std::string known = "expected at most 1024", all = ", which is all that the model knows, found ";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"-p", "1025"}, "--prompt: " + known + all + "1025"},
      {{"-d", "1000", "-n", "100"},
       "--depth, --predict: " + known + " tokens" + all + "1101 (1000 + 100 + 1 around them)"},
      {{"-n", "1024"}, "--depth, --predict: " + known + " tokens" + all + "1025 (0 + 1024 + 1 around them)"},
      {{"-d", "1000", "-n", "23", "--concurrency", "2"},
       "--depth, --predict: " + known + " tokens" + all + "1025 (1000 + 23 + 2 around them)"},
      {{"-c", "0", "-p", "1025"}, "--prompt: " + known + all + "1025"},
      {{"-c", "-1", "-n", "1024"},
       "--depth, --predict: " + known + " tokens" + all + "1025 (0 + 1024 + 1 around them)"},
  };
  for (const auto &[mistake, message] : cases) {
    std::vector<std::string> arguments = {"bench", "-m", seedling()};
    arguments.insert(arguments.end(), mistake.begin(), mistake.end());
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << message;
    EXPECT_EQ(outcome.err, "bonsai bench: " + message + " (see 'bonsai bench --help')\n");
  }
}

TEST(BenchRefuses, BadNumbers) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"-p", "0"}, "--prompt: expected a whole number from 1 to 1073741824, found '0'"},
      {{"-n", "0"}, "--predict: expected a whole number from 1 to 1073741824, found '0'"},
      {{"-d", "-1"}, "--depth: expected a whole number from 0 to 1073741824, found '-1'"},
      {{"-r", "0"}, "--repetitions: expected a whole number from 1 to 1073741824, found '0'"},
      {{"-r", "many"}, "--repetitions: expected a whole number from 1 to 1073741824, found 'many'"},
      {{"-t", "0"}, "--threads: expected a whole number from 1 to 1024, found '0'"},
      {{"--kv", "f8"}, "--kv: expected f16, q8_0 or f32, found 'f8'"},
      {{"--backend-opt", "cpu"}, "--backend-opt: expected KEY=VALUE, found 'cpu'"},
      {{"--stream-bytes", "1"}, "--stream-bytes: expected a whole number from 4096 to 1099511627776, found '1'"},
  };
  for (const auto &[mistake, message] : cases) {
    std::vector<std::string> arguments = {"bench", "-m", seedling()};
    arguments.insert(arguments.end(), mistake.begin(), mistake.end());
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << message;
    EXPECT_EQ(outcome.out, "") << message;
    EXPECT_EQ(outcome.err, "bonsai bench: " + message + " (see 'bonsai bench --help')\n");
  }
}

TEST(BenchRefuses, AMissingFile) {
  const Outcome outcome = run_program({"bench", "-m", "nowhere.gguf"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai bench: nowhere.gguf: cannot open: No such file or directory\n");
}

}  // namespace
}  // namespace bonsai::cli
