// Every check of the conformance suite on every backend of this build, or on the one that BONSAI_CONFORMANCE_PLUGIN
// names (tools/plugin-check/README.md). Built twice: quick checks, and the exhaustive ones under the label `slow`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "tools/plugin-check/check.h"

namespace bonsai::check {
namespace {

struct Subject {
  std::string name;
  Plugin plugin;
  Check check;
};

void PrintTo(const Subject &subject, std::ostream *out) { *out << subject.check.promise; }

// "key=value,key=value"; the key "device" chooses the device.
void add_options(std::string text, Plugin &plugin) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string option = text.substr(begin, end - begin);
    const size_t equals = std::min(option.find('='), option.size());
    const std::string key = option.substr(0, equals), value = option.substr(std::min(equals + 1, option.size()));
    if (key == "device") {
      plugin.device = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    } else {
      plugin.options.push_back({key, value});
    }
    begin = end + 1;
  }
}

std::vector<Subject> subjects() {
  std::vector<Subject> plugins = {{"cpu", {.path = BONSAI_CPU_PLUGIN, .device = 0, .options = {}}, {}},
                                  {"template", {.path = BONSAI_TEMPLATE_PLUGIN, .device = 0, .options = {}}, {}}};
  if (const char *given = std::getenv("BONSAI_CONFORMANCE_PLUGIN")) {
    plugins = {{"given", {.path = given, .device = 0, .options = {}}, {}}};
    if (const char *options = std::getenv("BONSAI_CONFORMANCE_OPTIONS")) add_options(options, plugins[0].plugin);
  }
  std::vector<Subject> subjects;
  for (const Subject &subject : plugins) {
    for (const Check &check : all_checks()) {
      if (check.extent == Extent::BONSAI_CONFORMANCE_EXTENT) subjects.push_back({subject.name, subject.plugin, check});
    }
  }
  return subjects;
}

std::string test_name(const testing::TestParamInfo<Subject> &info) {
  std::string name = info.param.name + "_" + info.param.check.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

class Conformance : public testing::TestWithParam<Subject> {};

TEST_P(Conformance, Backend) {
  const Finding finding = run(GetParam().check, GetParam().plugin);
  if (finding.verdict == Verdict::kSkipped) GTEST_SKIP() << finding.why;
  EXPECT_TRUE(finding.verdict == Verdict::kPassed) << GetParam().check.promise << ": " << finding.why;
}

INSTANTIATE_TEST_SUITE_P(Every, Conformance, testing::ValuesIn(subjects()), test_name);

}  // namespace
}  // namespace bonsai::check
