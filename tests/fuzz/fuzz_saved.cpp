// Promise: a session file or a saved conversation is refused with one line, or is all that it says; and an answer means
// the same however it comes in pieces.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "host/chat/reasoning_parser.h"
#include "host/chat/saved_chat.h"
#include "host/chat/tool_call_parser.h"
#include "host/engine/session_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace bonsai::host;
using bonsai::ChatPiece;

enum class Kind : uint8_t { kSession, kConversation, kAnswer, kCount };

// What an error says the checksum of a damaged file is.
std::optional<uint64_t> checksum_in(std::string_view message) {
  constexpr std::string_view kBefore = "session file is damaged: checksum ";
  if (!message.starts_with(kBefore)) return std::nullopt;
  return std::strtoull(std::string(message.substr(kBefore.size(), 16)).c_str(), nullptr, 16);
}

void use_session(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  auto file = parse_session_file(bytes);
  if (!file) {
    // Else no mutation would come past the checksum.
    if (const auto checksum = checksum_in(file.error().message)) {
      std::memcpy(bytes.data() + bytes.size() - sizeof *checksum, &*checksum, sizeof *checksum);
      file = parse_session_file(bytes);
      require(file.has_value());
    }
  }
  if (refused_in_one_line(file)) return;
  require(file->n_cached <= file->tokens.size());
  require(file->cache.size() == session_cache_bytes(file->origin, file->n_cached));
  uint64_t sum = 0;  // so that every byte is read
  for (const std::byte byte : file->cache) sum += std::to_integer<uint64_t>(byte);
  for (const char c : file->note) sum += static_cast<uint8_t>(c);
  require(sum <= UINT64_MAX / 2);
}

void use_conversation(std::string_view text) {
  const auto conversation = read_conversation(text);
  if (refused_in_one_line(conversation)) return;
  const std::string written = write_conversation(*conversation);
  const auto again = read_conversation(written);
  require(again.has_value());
  require(write_conversation(*again) == written);
}

struct Answer {
  std::string reasoning, content, calls;
  bool operator==(const Answer &) const = default;
};

// `piece` bytes at a time.
Answer read_calls(std::string_view text, size_t piece) {
  Answer streamed;
  const bonsai::ChatCallback callback = [&](ChatPiece kind, std::string_view some) {
    if (kind == ChatPiece::kToolCall && !streamed.calls.empty()) streamed.calls += ',';
    (kind == ChatPiece::kToolCall ? streamed.calls : streamed.content) += some;
    return true;
  };
  ToolCallParser parser(callback);
  for (size_t i = 0; i < text.size(); i += piece) require(parser.push(text.substr(i, piece)));
  require(parser.finish());
  require(streamed.content == parser.content());
  require(parser.calls() == (streamed.calls.empty() ? "" : "[" + streamed.calls + "]"));
  require(check_json_array("calls", parser.calls()).has_value());
  return streamed;
}

Answer read_answer(std::string_view text, bool in_reasoning, size_t piece) {
  Answer streamed;
  const ReasoningParser::Sink sink = [&](ChatPiece kind, std::string_view some) {
    (kind == ChatPiece::kReasoning ? streamed.reasoning : streamed.content) += some;
    return true;
  };
  ReasoningParser parser(in_reasoning, sink);
  for (size_t i = 0; i < text.size(); i += piece) require(parser.push(text.substr(i, piece)));
  require(parser.finish());
  require(streamed == Answer{parser.reasoning(), parser.content(), ""});
  return streamed;
}

void use_answer(std::string_view text) {
  for (const bool in_reasoning : {false, true}) {
    const Answer whole = read_answer(text, in_reasoning, std::max<size_t>(text.size(), 1));
    require(whole.reasoning.size() + whole.content.size() <= text.size());
    for (const size_t piece : {1, 2, 5}) require(read_answer(text, in_reasoning, piece) == whole);
  }
  const Answer whole = read_calls(text, std::max<size_t>(text.size(), 1));
  for (const size_t piece : {1, 2, 5}) require(read_calls(text, piece) == whole);
}

// The bytes of session_file.h, without a checksum that is right.
std::string session(uint32_t version, uint32_t kv_dtype, uint32_t head_dim, std::vector<int32_t> tokens,
                    uint32_t n_cached, std::string_view note) {
  std::string bytes = "BONSAISE";
  const auto add = [&bytes](auto value) { bytes.append(reinterpret_cast<const char *>(&value), sizeof value); };
  const SessionOrigin origin = {.model = 7, .kv_dtype = kv_dtype, .layers = 2, .kv_heads = 1, .head_dim = head_dim};
  add(version);
  add(kv_dtype);
  add(origin.model);
  for (const uint32_t extent : {origin.layers, origin.kv_heads, origin.head_dim}) add(extent);
  add(static_cast<uint32_t>(tokens.size()));
  add(n_cached);
  add(static_cast<uint32_t>(note.size()));
  for (const int32_t token : tokens) add(token);
  bytes.append(session_cache_bytes(origin, n_cached), '\x3c');
  bytes += note;
  add(uint64_t{0});
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char *>(data) + 1, size - 1);
  switch (static_cast<Kind>(data[0] % static_cast<uint8_t>(Kind::kCount))) {
    case Kind::kSession:
      use_session(text);
      break;
    case Kind::kConversation:
      use_conversation(text);
      break;
    default:
      use_answer(text);
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  return {
      make_seed(Kind::kSession, session(1, BONSAI_KV_F16, 8, {1, 2, 3}, 2, "")),
      make_seed(Kind::kSession, session(1, BONSAI_KV_Q8_0, 32, {1, -1}, 2, "")),
      make_seed(Kind::kSession, session(2, BONSAI_KV_F32, 4, {5}, 0, R"({"messages": []})")),
      make_seed(Kind::kSession, session(2, BONSAI_KV_F32, 1, {}, 0, "x")),
      make_seed(Kind::kConversation, R"({"format": "bonsai-chat", "version": 1, "system": "S", "tools": [{"a": 1}],
          "enable_thinking": true, "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content":
          "\u00e4\n", "reasoning": "r", "tool_calls": [{"name": "f", "arguments": {"x": [1.5e300, null]}}]}]})"),
      make_seed(Kind::kConversation, R"({"format": "bonsai-chat", "version": 1, "messages": []})"),
      make_seed(Kind::kConversation, std::string(200, '[') + std::string(200, ']')),
      make_seed(Kind::kAnswer, "<think>\nWhy?\n</think>\n\nBecause."),
      make_seed(Kind::kAnswer, "  <think></think>a</think><think>b"),
      make_seed(Kind::kAnswer,
                "a\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>\n<tool_call>"),
      make_seed(Kind::kAnswer, "<tool_call>{\"name\":\"g\"}</tool_call>\n\nb</tool_call>"),
      make_seed(Kind::kAnswer, "<thi <thin\n</thin </think\n>\n</think>\r\n c"),
  };
}
