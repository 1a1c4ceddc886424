// From tensors to weights: what is stacked, transcoded, looked up by the host, and refused.
#include <gtest/gtest.h>

#include "tests/host/runtime/rig.h"

namespace bonsai::test {
namespace {

using quant::Format;

class Upload : public testing::Test {
 protected:
  Upload() {
    host::BackendRequest request;
    request.backend = plugin("template").string();
    request.strict = true;
    device = value_or_throw(host::open_device(request, nullptr));
  }

  TinyModel description;
  std::unique_ptr<host::Device> device;
};

TEST_F(Upload, AFormatThatTheBackendDoesNotTakeNamesTensorAndFormat) {
  description.formats["blk.1.ffn_up.weight"] = Format::kQ8_0;
  const TinyModelFile file(description);
  const auto model = value_or_throw(model::load_model(file.path()));
  const auto uploaded = host::DeviceModel::upload(model, *device, nullptr);
  ASSERT_FALSE(uploaded);
  EXPECT_EQ(uploaded.error().status, bonsai_status{BONSAI_UNSUPPORTED});
  EXPECT_EQ(uploaded.error().message, "blk.1.ffn_up.weight: the backend 'template' does not take Q8_0");
}

TEST_F(Upload, ProgressRisesToTheBytesOfAllMatrices) {
  const TinyModelFile file(description);
  const auto model = value_or_throw(model::load_model(file.path()));
  uint64_t last = 0, total = 0, expected = 0;
  const host::UploadProgress progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  };
  value_or_throw(host::DeviceModel::upload(model, *device, progress));
  for (const gguf::Tensor &tensor : model.file->tensors()) expected += tensor.rows() > 1 ? tensor.data.size() : 0;
  EXPECT_EQ(total, expected);
  EXPECT_EQ(last, expected);
}

// The template has no embeddings: a tied head is a matrix there, and rows are decoded by the host.
TEST_F(Upload, ATiedHeadIsOneMatrixWhereRowsAreNotLookedUp) {
  const TinyModelFile file(description);
  const auto model = value_or_throw(model::load_model(file.path()));
  const auto uploaded = value_or_throw(host::DeviceModel::upload(model, *device, nullptr));
  EXPECT_FALSE(uploaded->embedding());
  EXPECT_TRUE(uploaded->head());
  EXPECT_FALSE(uploaded->head().keeps_host_memory());
}

// Layers take states, not ids: below level 2 nobody would look rows up.
TEST(UploadByLevel, AnEmbeddingGoesWhereItIsLookedUp) {
  for (const bool tied : {false, true}) {
    TinyModel description;
    description.tied = tied;
    const Rig forward(description, "failing"), layers(description, "failing_layers"),
        products(description, "failing_gemv");
    EXPECT_TRUE(forward.device_model().embedding()) << tied;
    EXPECT_FALSE(layers.device_model().embedding()) << tied;
    EXPECT_FALSE(products.device_model().embedding()) << tied;
    EXPECT_TRUE(layers.device_model().head()) << tied;
    EXPECT_TRUE(products.device_model().head()) << tied;
  }
}

}  // namespace
}  // namespace bonsai::test
