// What requests of several kinds say in the same fields. Errors are ApiErrors that name the field.
#pragma once

#include <bonsai/chat.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>

#include "host/server/api_request.h"
#include "host/server/json_fields.h"

namespace bonsai::server {

inline constexpr uint32_t kMaxCount = std::numeric_limits<uint32_t>::max();
inline constexpr uint32_t kMostLogprobs = 20;

// How is chosen, where the text stops, what form it has, in how many answers, and how these are told.
void read_text_request(const JsonFields &fields, TextRequest &request);

// Texts to stop at, in the place of those that there are; one, or an array.
void read_stops(const JsonFields &fields, const char *name, GenerateOptions &options);

// Under one of these names; -1 is others' word for "until the answer ends".
std::optional<uint32_t> read_most_tokens(const JsonFields &fields, std::initializer_list<const char *> names,
                                         uint32_t least);

// A choice's own logprob comes with at least one of the likeliest.
void want_logprobs(uint32_t top, TextRequest &request);
// To a request with logprobs, or to one without.
uint32_t most_answers(std::optional<uint32_t> top_logprobs);

// Where {"type": "json_schema"} has its schema: in the form itself, or, as chat completions have it, in its
// "json_schema", too.
enum class SchemaPlace { kFormat, kWithin };

// The form of the answer, {"type": "text", "json_object" or "json_schema", ...}, which no other field may give.
void read_schema(const JsonFields &fields, const char *name, SchemaPlace place, TextRequest &request);

// Of a conversation: whether to think first. What else other servers' templates and models know is refused.
void read_chat_options(const JsonFields &fields, ChatOptions &chat);

}  // namespace bonsai::server
