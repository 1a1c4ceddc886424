// Chat templates against Python's Jinja: Qwen3's template, and small templates for the rest of the language.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/text/template/chat_template.h"

namespace bonsai::jinja {
namespace {

using Json = nlohmann::ordered_json;

Json read_json(const std::string &name) { return Json::parse(std::ifstream(BONSAI_TEST_DATA "/" + name)); }

const Json kNothing = Json::object();

TEST(ChatTemplateGolden, Qwen3sTemplateRendersAsPythonDoes) {
  const Json golden = read_json("chat-template-golden.json");
  const auto chat_template = ChatTemplate::parse(golden["template"].get<std::string>());
  ASSERT_TRUE(chat_template.has_value()) << chat_template.error().message;
  ASSERT_EQ(golden["cases"].size(), 14u);
  for (const Json &example : golden["cases"]) {
    const auto rendered = chat_template->render({.input = example["input"], .trusted = kNothing});
    ASSERT_TRUE(rendered.has_value()) << rendered.error().message;
    EXPECT_EQ(rendered->text, example["text"].get<std::string>()) << example["input"];
  }
}

TEST(ChatTemplateGolden, SmallTemplatesRenderAndFailAsInPython) {
  const Json golden = read_json("template-golden.json");
  ASSERT_GT(golden["cases"].size(), 500u);
  for (const Json &example : golden["cases"]) {
    const auto source = example["template"].get<std::string>();
    const auto chat_template = ChatTemplate::parse(source);
    const auto rendered = chat_template ? chat_template->render({.input = golden["variables"], .trusted = kNothing})
                                        : tl::unexpected(chat_template.error());
    if (example.contains("fails")) {
      EXPECT_FALSE(rendered.has_value()) << source << "\ngave " << rendered->text;
      continue;
    }
    ASSERT_TRUE(example.contains("text"));
    if (rendered) {
      EXPECT_EQ(rendered->text, example["text"].get<std::string>()) << source;
    } else {
      ADD_FAILURE() << source << "\nfailed: " << rendered.error().message;
    }
  }
}

}  // namespace
}  // namespace bonsai::jinja
