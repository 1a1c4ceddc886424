// Grammars and schemas that take long to be read: who waits for them, and what several requests for one get.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/host/server/service.h"

namespace bonsai::server {
namespace {

// One that takes tenths of a second, and differs from those of other `i`.
json schema_read_slowly(int i) {
  json ways;
  for (int k = 0; k < 20; ++k) ways.push_back({{"type", "string"}, {"format", "uri"}, {"maxLength", 60 + k}});
  return {{"anyOf", ways}, {"title", std::to_string(i)}};
}

TEST_F(Telling, NobodyWaitsForTheSchemasOfOthers) {
  ApiService service(engine_, greedy_options());
  std::vector<std::shared_ptr<Keeping>> slow;
  for (int i = 0; i < 4; ++i)
    slow.push_back(asked(service, kComplete, {{"prompt", "The wolf"}, {"json_schema", schema_read_slowly(i)}}));
  EXPECT_EQ(asked(service, kComplete, {{"prompt", "The wolf"}, {"max_tokens", 1}})->wait().status, 200);
  EXPECT_FALSE(slow[2]->has_reply() || slow[3]->has_reply());
}

// Of what is refused, too: it would take as long to be refused again.
TEST_F(Telling, WhoGivesAKnownSchemaDoesNotWaitForThoseOfOthers) {
  ApiService service(engine_, greedy_options());
  const json known = {{"prompt", "The wolf"}, {"json_schema", {{"type", "boolean"}}}};
  const json refused = {{"prompt", "The wolf"}, {"json_schema", {{"not", {{"type", "boolean"}}}}}};
  EXPECT_EQ(asked(service, kComplete, known)->wait().status, 200);
  EXPECT_EQ(asked(service, kComplete, refused)->wait().status, 400);
  std::vector<std::shared_ptr<Keeping>> slow;
  for (int i = 0; i < 4; ++i)
    slow.push_back(asked(service, kComplete, {{"prompt", "The wolf"}, {"json_schema", schema_read_slowly(i)}}));
  EXPECT_EQ(asked(service, kComplete, known)->wait().status, 200);
  const HttpReply again = asked(service, kComplete, refused)->wait();
  EXPECT_EQ(again.status, 400);
  EXPECT_EQ(json::parse(again.body)["error"]["message"],
            "json_schema: JSON schema, '#': keyword 'not' is not supported");
  EXPECT_FALSE(slow[2]->has_reply() || slow[3]->has_reply());
}

// Half of the places are for requests that need none read.
TEST_F(Telling, OnlySoManyWaitForTheirSchemas) {
  ApiOptions options = greedy_options();
  options.batch.max_sequences = 4;
  options.max_waiting = 4;
  ApiService service(engine_, options);
  std::vector<std::shared_ptr<Keeping>> slow;
  for (int i = 0; i < 8; ++i)
    slow.push_back(asked(service, kComplete, {{"prompt", "The wolf"}, {"json_schema", schema_read_slowly(i)}}));
  EXPECT_EQ(slow.back()->wait().status, 503);
  EXPECT_EQ(asked(service, kComplete, {{"prompt", "The wolf"}, {"max_tokens", 1}})->wait().status, 200);
}

}  // namespace
}  // namespace bonsai::server
