// Accuracy in every format: the seedling once more in each, against the float64 judge of the same weights.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/quant/format.h"
#include "tests/plugins/cpu/agreement.h"

namespace bonsai::test {
namespace {

// The 1-bit seedling in another format, as bonsai-quantize writes it, for as long as the test runs.
class SeedlingIn : public testing::TestWithParam<quant::FormatTraits> {
 protected:
  SeedlingIn()
      : path_(std::filesystem::temp_directory_path() /
              ("seedling-" + std::string(GetParam().name) + "-" + std::to_string(getpid()) + ".gguf")) {
    const std::string command = "'" BONSAI_BINARY_DIR "/bin/bonsai-quantize' --requantize --type " +
                                std::string(GetParam().name) + " '" BONSAI_SOURCE_DIR "/models/seedling-q1_0.gguf' '" +
                                path_.string() + "' 2> /dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }
  ~SeedlingIn() override { std::filesystem::remove(path_); }

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// The model was trained for one bit a weight and not for the format, which leaves it more close calls: between 98.8 and
// 99.6 % of the choices are the judge's (docs/cpu-measurements.md, "Why groups of 32 activations"). No choice that is
// not close is another in any.
TEST_P(SeedlingIn, TwoThousandPredictionsAgreeWithTheJudge) {
  const auto model = model::load_model(path());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  OpenDevice device{kPlugin};
  UploadedModel uploaded{device, *model};
  OpenSession session{uploaded, window_config()};
  const reference::Agreement agreement = agreement_with_judge(*model, session, two_thousand_tokens(*model));
  EXPECT_LE(agreement.mean_divergence, 2e-4);
  EXPECT_LE(agreement.largest_lead_lost, 0.5);
  EXPECT_GE(agreement.same_choice, static_cast<double>(agreement.predictions) * 0.985);
  if (takes_floats(GetParam().format)) {
    EXPECT_EQ(agreement.same_choice, agreement.predictions);
    EXPECT_LE(agreement.mean_divergence, 1e-7);
  }
  RecordProperty("mean_divergence", std::to_string(agreement.mean_divergence));
  RecordProperty("agreements", static_cast<int>(agreement.same_choice));
}

INSTANTIATE_TEST_SUITE_P(Formats, SeedlingIn, testing::ValuesIn(quant::formats().begin(), quant::formats().end()),
                         [](const auto &info) { return std::string(info.param.name); });

}  // namespace
}  // namespace bonsai::test
