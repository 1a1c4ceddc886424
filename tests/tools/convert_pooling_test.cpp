// How an embedding model's checkpoint says that hidden states become an embedding.
#include <nlohmann/json.hpp>

#include "tests/tools/convert_fixture.h"

namespace bonsai::convert {
namespace {

class ConvertPooling : public Convert {
 protected:
  // Converts a checkpoint whose pooling is configured so.
  Outcome convert_with(const nlohmann::json &pooling, nlohmann::json modules = kModules) {
    TinyCheckpoint().write(input());
    fs::create_directory(input() + "/1_Pooling");
    test::write_file(input() + "/modules.json", modules.dump());
    test::write_file(input() + "/1_Pooling/config.json", pooling.dump());
    return convert_input();
  }

  // qwen3.pooling_type of the result; 0 where there is none.
  uint64_t written_type() const {
    const model::Model model = load();
    const gguf::Value *type = model.file->find("qwen3.pooling_type");
    return type != nullptr ? type->as_uint().value() : 0;
  }

  inline static const nlohmann::json kModules = {
      {{"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
      {{"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}},
      {{"path", "2_Normalize"}, {"type", "sentence_transformers.models.Normalize"}}};
};

TEST_F(ConvertPooling, OfAnEmbeddingModelArrives) {
  Outcome outcome = convert_with({{"pooling_mode_cls_token", false}, {"pooling_mode_lasttoken", true}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(written_type(), 3u);
  EXPECT_TRUE(load().config.pools_last);
  ASSERT_EQ(convert_with({{"pooling_mode_mean_tokens", true}}).exit_code, 0);
  EXPECT_EQ(written_type(), 1u);
  ASSERT_EQ(convert_with({{"pooling_mode", "lasttoken"}}).exit_code, 0);
  EXPECT_EQ(written_type(), 3u) << "as newer files say it";
  ASSERT_EQ(convert_with({}, nlohmann::json::array({kModules[0]})).exit_code, 0);
  EXPECT_EQ(written_type(), 0u);
}

TEST_F(ConvertPooling, ThatIsNotComputedIsSaid) {
  const std::string said = "bonsai-convert: " + input() +
                           "/1_Pooling/config.json: expected the pooling to be the mean or the last token's; "
                           "embeddings of the result are the mean\n";
  Outcome outcome = convert_with({{"pooling_mode_cls_token", true}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, said);
  EXPECT_EQ(written_type(), 2u);
  for (const nlohmann::json &pooling :
       {nlohmann::json{{"pooling_mode_max_tokens", true}},
        nlohmann::json{{"pooling_mode_mean_tokens", true}, {"pooling_mode_lasttoken", true}},
        nlohmann::json::object()}) {
    outcome = convert_with(pooling);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, said);
    EXPECT_EQ(written_type(), 0u);
  }
  nlohmann::json modules = kModules;
  modules.push_back({{"path", "3_Dense"}, {"type", "sentence_transformers.models.Dense"}});
  outcome = convert_with({{"pooling_mode_mean_tokens", true}}, modules);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "bonsai-convert: " + input() +
                             "/modules.json: \"sentence_transformers.models.Dense\": not computed; embeddings of the "
                             "result are what goes into it\n");
}

TEST_F(ConvertPooling, OfABrokenFileIsRefused) {
  const auto refusal_with = [&](const nlohmann::json &modules) {
    convert_with({{"pooling_mode_mean_tokens", true}}, modules);
    return refusal_of_input();
  };
  EXPECT_EQ(refusal_with(nlohmann::json::object()), "/modules.json: expected a JSON array, found object\n");
  nlohmann::json modules = kModules;
  for (const char *path : {"", "..", "/etc", "../1_Pooling"}) {
    modules[1]["path"] = path;
    EXPECT_EQ(refusal_with(modules),
              std::string("/modules.json: path of the pooling: expected a directory's name, found \"") + path + "\"\n");
  }
  modules[1]["path"] = "elsewhere";
  EXPECT_TRUE(refusal_with(modules).starts_with("/elsewhere/config.json: "));
}

}  // namespace
}  // namespace bonsai::convert
