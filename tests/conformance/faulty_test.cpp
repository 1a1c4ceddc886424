// The conformance suite can fail: a backend with one fault at a time does not pass, and the check that is there for the
// fault says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {
namespace {

struct Fault {
  const char *name;
  const char *check;    // that finds it
  const char *finding;  // part of what it says
};

void PrintTo(const Fault &fault, std::ostream *out) { *out << fault.name; }

constexpr Fault kFaults[] = {
    {"claims what does not exist", "dtypes", "no such dtype exists"},
    {"does not claim Q8_0", "dtypes", "Q8_0 is not claimed for use 1, but weight_upload takes it"},
    {"forgets the last row", "gemv.F32", "relative error"},
    {"forgets the last vector", "gemv.Q4_0", "relative error"},
    {"writes beyond y", "gemv.F32", "writes outside y"},
    {"keeps memory that is not its own", "gemv.memory", "relative error"},
    {"rounds as its caller does", "gemv.environment", "called with rounding up and subnormals off: F32"},
    {"decodes scales as its caller computes", "gemv.environment", "Q8_0 (33, 512) of small scales"},
    {"rounds logits as its caller does", "forward.environment", "called with rounding up and subnormals off: "},
    {"rounds otherwise after gemv", "gemv.F32",
     "gemv leaves another floating-point environment: a control register of 0x"},
    {"rounds otherwise after device_open", "lifetime.silence", "device_open leaves another floating-point environment"},
    {"adds more in company", "gemv.deterministic", "other bytes than alone"},
    {"takes no vectors for some", "arguments.weights", "gemv with no vectors: status 0"},
    {"does not terminate messages", "arguments.weights", "the message is not terminated"},
    {"says nothing", "arguments.weights", "the message is empty"},
    {"heeds an option's first value", "arguments.options", "expected the last to count"},
    {"takes any value", "arguments.options", "expected the last to count"},
    {"takes its own sizes only", "structs.weights", "not my size"},
    {"steps through parts", "structs.weights", "weight_upload of longer structs"},
    {"writes its own sizes", "structs.weights", "expected the caller's 32"},
    {"writes behind structs", "structs.weights", "bytes behind the fields of version 0.10 were written"},
    {"prints in gemv", "lifetime.silence", "words of the plugin"},
    {"logs two lines as one", "lifetime.log", "has more than one line: 'faulty: "},
    {"logs at a level of its own", "lifetime.log", "is logged at level 4, expected 0 to 3"},
    {"logs without its name", "lifetime.log", "expected the backend's name, 'faulty', in front"},
    {"logs nothing as a line", "lifetime.log", "a message of the log is NULL"},
    {"logs to whom it logged before", "lifetime.log", "'faulty: opened' is logged after device_close has returned"},
    {"sizes real models only", "lifetime.session-memory", "q has no weight"},
    {"says it in two lines", "arguments.weights", "more than one line"},
    {"writes outputs when it fails", "arguments.weights", "an output was written although the call failed"},
    {"writes a result when it fails", "arguments.weights", "an output was written although the call failed"},
    {"says its name first", "arguments.weights", "the message begins with the backend's name"},
    {"prints what it refuses", "arguments.silence", "words of the plugin"},
    {"does not free weights", "lifetime.leaks", "everything is freed, but device_status says"},
    {"leaks when it is opened", "lifetime.leaks", "the process grew by"},
    {"leaves a file open in device_open", "lifetime.leaks", "open files after a device was opened"},
    {"leaves a thread behind in device_open", "lifetime.leaks", "threads after a device was opened"},
    {"takes more memory than it says", "lifetime.session-memory", "but session_memory said"},
    {"measures without being asked", "profile", "after BONSAI_PROFILE_STOP"},
    {"measures without being asked", "profile.passes", "after BONSAI_PROFILE_STOP"},
    {"measures gemv only", "profile.passes", "no phase of theirs was measured"},
    {"takes milliseconds for seconds", "profile.passes", "profile: all phases took "},
    {"rotates too far", "layer.biases", "relative error"},
    {"rotates too far", "forward.batches", "relative error"},
    {"runs the last layer twice", "layers.batches", "relative error"},
    {"wants tokens for layers", "layers.batches", "no tokens"},
    {"wants tokens for layers", "layers.tied", "no tokens"},
    {"has one wrong logit", "forward.F32", "relative error"},
    {"has one wrong logit", "outputs.head", "relative error"},
    {"attends to one position too many", "forward.batches", "relative error"},
    {"does not see its own batch", "forward.batches", "relative error"},
    {"mixes neighbours up", "deterministic", "other bytes"},
    {"ignores rollback", "kv.rollback", "position 45: relative error"},
    {"copies one block only", "kv.copy", "the copy"},
    {"gives a block to one row only", "kv.shared", "sequence 1, whose first blocks others have too"},
    {"attends to one position too many", "kv.leftovers", "in batches"},
    {"imports nothing", "kv.move", "kv "},
    {"moves nothing in flight", "kv.in-flight", "other bytes than after its wait"},
    {"exports values before keys", "kv.layout", "the first key"},
    {"takes ties by the highest id", "outputs.ties", "expected 0, the lowest id"},
    {"does not sort the top", "outputs.selection", "after id"},
    {"misses one of the top", "outputs.selection", "occurs twice"},
    {"forgets the log-sum-exp", "outputs.selection", "log-sum-exp is 0"},
    {"wants a log-sum-exp", "outputs.selection", "the asked-for logit"},
    {"serves few ids at a time", "outputs.selection", "more than 64 ids"},
    {"takes any number of ids", "arguments.batches", "more asked-for ids than the vocabulary has: status 0"},
    {"makes up outputs", "arguments.sessions", "a head without outputs: status 0"},
    {"takes any batch for its state", "arguments.batches", "behind one of another number of tokens: status 0"},
    {"selects nothing among NaN", "outputs.nan", "an id of -1 is selected"},
    {"ignores the temperature", "outputs.adjust", "temperature 0.05: the adjusted logit"},
    {"ignores the mask", "outputs.adjust", "a mask: the adjusted logit"},
    {"ignores adjustments", "outputs.adjust", "additions: the adjusted logit"},
    {"keeps the model's tables", "forward.F32", "element 0 of 97 is NaN"},
    {"looks at positions behind the submit", "forward.F32", "relative error"},
    {"looks rows up from a weight's top", "forward.slices", "relative error"},
    {"has one cache for all sessions", "layers.two-sessions", "with another session beside it"},
    {"has one cache for all sessions", "forward.two-sessions", "with another session beside it"},
    {"chains whichever session was last", "forward.two-sessions", "a chained token with another session beside it"},
    {"counts positions to 1,024", "forward.long", "position 1535: relative error"},
    {"reads the whole block table", "arguments.batches", "a block beyond the pool"},
    {"hands its state out for good", "arguments.batches", "the state that a layer_encode with an out has left"},
    {"takes rows of a batch only", "outputs.head", "more rows than a batch has tokens"},
    {"takes the last output for the one that is named", "forward.chaining-two", "sequence 0 of 2: relative error"},
    {"chains what nothing adjusted", "forward.chaining-adjusted", "that adjustments chose, sequence 0 of 3: relative"},
    {"stores seven bits", "kv.layout", "expected the nearest of 255 steps"},
    {"takes NaN for zeros", "kv.nan", "that is NaN throughout is stored as 0"},
    {"says that it keeps what was not lent", "gemv.memory", "but BONSAI_WEIGHT_BORROWED was not set"},
    {"miscounts a weight's bytes", "gemv.memory", "but device_status says"},
    {"multiplies with embeddings", "arguments.weights", "uploaded as an embedding only: status 0"},
    {"norms with 1e-6", "layers.eps", "relative error"},
    {"norms with 1e-6", "forward.eps", "relative error"},
    {"sizes any model", "arguments.sessions", "session_memory with an unknown feature: status 0"},
    {"takes what is reserved", "arguments.sessions",
     "session_create with a configuration whose reserved field is set: status 0"},
    {"wants a top-k", "arguments.sessions", "a max_k of 0"},
    {"has a head for everyone", "arguments.sessions", "lm_head of a session without a head: status 0"},
    {"takes tokens and hidden states", "arguments.batches", "with token ids and hidden states: status 0"},
    {"keeps its state behind a submit", "arguments.batches", "lm_head without a state, behind a submit: status 0"},
    {"keeps its state behind a head of nothing", "arguments.batches", "rows of its own and no outputs: status 0"},
    {"waits in any order", "arguments.batches", "for the second of two submits, before the first: status 0"},
    {"waits twice", "arguments.batches", "for a submit that was waited for, with one in flight: status 0"},
    {"forgets tokens when it refuses", "forward.chaining-previous", "no previous submit"},
    {"ends a submit with a layer", "forward.chaining-previous", "no previous submit"},
    {"chains over a submit of nothing", "forward.chaining-previous", "the last submit but one, behind one without"},
    {"forgets a row", "outputs.order", "element 0 of 97 was not written"},
    {"adds finite numbers only", "outputs.adjust", "additions of -infinity: the adjusted logit"},
};

Finding run_named(const std::string &name, const std::string &fault) {
  const std::vector<Check> checks = all_checks();
  const auto named = std::find_if(checks.begin(), checks.end(), [&](const Check &check) { return check.name == name; });
  if (named == checks.end()) throw std::runtime_error("no check is named " + name);
  const std::vector<host::DeviceOption> options = {{"fault", fault}, {"cpu.prefetch", "auto"}};
  return run(*named, {.path = BONSAI_FAULTY_PLUGIN, .device = 0, .options = options});
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLeaksEndTheProgram = true;
#else
constexpr bool kLeaksEndTheProgram = false;
#endif

class FaultyBackend : public testing::TestWithParam<Fault> {};

TEST_P(FaultyBackend, IsFound) {
  const bool leaks = std::string(GetParam().check) == "lifetime.leaks";
  if (kLeaksEndTheProgram && leaks) GTEST_SKIP() << "AddressSanitizer finds leaks itself, and fails the test for it";
  const Finding finding = run_named(GetParam().check, GetParam().name);
  EXPECT_TRUE(finding.verdict == Verdict::kFailed) << GetParam().check << " does not notice; " << finding.why;
  EXPECT_NE(finding.why.find(GetParam().finding), std::string::npos) << finding.why;
}

TEST_P(FaultyBackend, PassesTheCheckWithoutTheFault) {
  const Finding finding = run_named(GetParam().check, "none");
  EXPECT_TRUE(finding.verdict == Verdict::kPassed) << finding.why;
}

template <class Case>
std::string test_name(const testing::TestParamInfo<Case> &info) {
  std::string name = std::string(info.param.name) + "_" + info.param.check;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, FaultyBackend, testing::ValuesIn(kFaults), test_name<Fault>);

// What the header allows: a shape that is not served is no fault, unless models have it, nor is an output that is
// written before the input is read.
struct Refusal {
  const char *name, *check;
  Verdict verdict;
  const char *why;  // part of it
};

void PrintTo(const Refusal &refusal, std::ostream *out) { *out << refusal.name; }

constexpr Refusal kRefusals[] = {
    {"takes heads of 64 only", "forward.F32", Verdict::kPassed, ""},
    {"takes heads of 64 only", "forward.heads", Verdict::kPassed, ""},
    {"takes heads of 64 only", "arguments.sessions", Verdict::kSkipped, "heads that are not 64 wide"},
    {"takes heads of 64 only", "kv.rollback", Verdict::kSkipped, "heads that are not 64 wide"},
    {"takes heads of 64 only", "forward.ordinary", Verdict::kFailed, "expected a layer of Qwen3-0.6B to be served"},
    {"takes columns in multiples of 64 only", "gemv.F32", Verdict::kPassed, ""},
    {"takes columns in multiples of 64 only", "gemv.Q8_0", Verdict::kPassed, ""},
    {"takes columns in multiples of 64 only", "gemv.Q1_0_G128", Verdict::kPassed, ""},
    {"takes columns in multiples of 64 only", "layers.batches", Verdict::kSkipped, "no multiple of 64"},
    {"takes columns in multiples of 64 only", "arguments.weights", Verdict::kPassed, ""},
    {"takes columns in multiples of 64 only", "forward.ordinary", Verdict::kPassed, ""},
    {"clears a layer's output first", "layers.batches", Verdict::kPassed, ""},
    {"refuses odd shapes as unserved", "arguments.sessions", Verdict::kPassed, ""},
};

class RefusingBackend : public testing::TestWithParam<Refusal> {};

TEST_P(RefusingBackend, IsJudgedByWhatItServes) {
  const Finding finding = run_named(GetParam().check, GetParam().name);
  EXPECT_TRUE(finding.verdict == GetParam().verdict) << finding.why;
  EXPECT_NE(finding.why.find(GetParam().why), std::string::npos) << finding.why;
}

INSTANTIATE_TEST_SUITE_P(Every, RefusingBackend, testing::ValuesIn(kRefusals), test_name<Refusal>);

// Faults of the entry function and of device_info, which know no options.
constexpr Fault kEntryFaults[] = {
    {"rounds otherwise after loading", "entry", "bonsai_backend_entry leaves another floating-point environment"},
    {"serves any major version", "entry", "a table for the major version 4294967295, expected NULL"},
    {"has no version", "entry", "the table's version is NULL"},
    {"describes itself in two lines", "entry", "the table's description has more than one line"},
    {"lists a KV dtype of its own", "arguments.devices", "device_info lists KV dtype 77"},
    {"has a feature of its own", "arguments.devices", "the features have bits 0x100000"},
};

Finding run_with_entry_fault(const char *check, const char *fault) {
  EXPECT_EQ(setenv("BONSAI_FAULTY_ENTRY", fault, 1), 0);
  const Finding finding = run_named(check, "none");
  unsetenv("BONSAI_FAULTY_ENTRY");
  return finding;
}

class FaultyEntry : public testing::TestWithParam<Fault> {};

TEST_P(FaultyEntry, IsFound) {
  const Finding finding = run_with_entry_fault(GetParam().check, GetParam().name);
  EXPECT_TRUE(finding.verdict == Verdict::kFailed) << GetParam().check << " does not notice; " << finding.why;
  EXPECT_NE(finding.why.find(GetParam().finding), std::string::npos) << finding.why;
}

TEST_P(FaultyEntry, PassesTheCheckWithoutTheFault) {
  const Finding finding = run_named(GetParam().check, "none");
  EXPECT_TRUE(finding.verdict == Verdict::kPassed) << finding.why;
}

INSTANTIATE_TEST_SUITE_P(Every, FaultyEntry, testing::ValuesIn(kEntryFaults), test_name<Fault>);

// To a backend that is newer than this program, junk behind the fields that are known here may mean something.
TEST(Suite, ShowsNoLongerStructsToANewerBackend) {
  const Finding finding = run_with_entry_fault("structs.weights", "has more functions");
  EXPECT_TRUE(finding.verdict == Verdict::kSkipped) << finding.why;
  EXPECT_NE(finding.why.find("the backend speaks version 0.10 in a table of "), std::string::npos) << finding.why;
}

#if defined(__GNUC__) && __GNUC__ < 13  // whose -ffast-math links such code into shared objects
TEST(Suite, WatchesTheEnvironmentWhileAPluginIsLoaded) {
  const std::vector<Check> checks = all_checks();
  const auto entry =
      std::find_if(checks.begin(), checks.end(), [](const Check &check) { return check.name == "entry"; });
  const Finding finding = run(*entry, {.path = BONSAI_FAST_MATH_PLUGIN, .device = 0, .options = {}});
  EXPECT_NE(finding.why.find("loading the library leaves another floating-point environment"), std::string::npos)
      << finding.why;
}
#endif

TEST(Suite, NamesEveryCheckOnce) {
  std::vector<std::string> names;
  for (const Check &check : all_checks()) names.push_back(check.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Suite, FailsEveryCheckOfAPluginThatDoesNotLoad) {
  for (const Check &check : all_checks()) {
    const Finding finding = run(check, {.path = "/nowhere/libbonsai_none.so", .device = 0, .options = {}});
    EXPECT_TRUE(finding.verdict == Verdict::kFailed) << check.name;
    EXPECT_EQ(finding.why, "/nowhere/libbonsai_none.so: no such file") << check.name;
  }
}

}  // namespace
}  // namespace bonsai::check
