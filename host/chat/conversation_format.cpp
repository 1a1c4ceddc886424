#include "host/chat/conversation_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "host/chat/saved_chat.h"

namespace bonsai::host {
namespace {

using Json = nlohmann::ordered_json;

void throw_unless(const Result<void> &result) {
  if (!result) throw EngineError(ErrorKind::kInvalidArgument, result.error().message);
}

// As Python's json.dumps() writes it, which is what templates write where they do it themselves.
std::string to_text(const Json &value) {
  const auto writer = jinja::ChatTemplate::parse("{{ value | tojson }}");
  const Json input = {{"value", value}}, nothing = Json::object();
  return value_or_throw(writer->render({.input = input, .trusted = nothing}), ErrorKind::kInvalidArgument).text;
}

// What calls pass. OpenAI's API has texts, which some templates join to others.
enum class Arguments { kAsObjects, kAsTexts };
// Tools and documents that are not there. Some templates walk over them without asking.
enum class Absent { kIsNone, kIsUndefined };
struct Form {
  Absent absent;
  Arguments arguments;
  bool has_null_beside_calls;  // in place of empty content
};

// In OpenAI's form. What a model writes is the function alone.
Json to_call(const Json &given, Arguments arguments) {
  if (!given.is_object()) return given;
  Json call = given;
  if (!call.contains("function") && call.contains("name")) call = {{"type", "function"}, {"function", given}};
  if (arguments == Arguments::kAsObjects || !call.contains("function") || !call["function"].is_object()) return call;
  const auto found = call["function"].find("arguments");
  if (found != call["function"].end() && found->is_object()) *found = to_text(*found);
  return call;
}

void add_calls(const Json &calls, Arguments arguments, Json &message) {
  if (calls.empty()) return;
  Json made = Json::array();
  for (const Json &call : calls) made.push_back(to_call(call, arguments));
  message["tool_calls"] = std::move(made);
}

void add_answered_call(const Json &calls, Json &message) {
  if (calls.empty() || !calls.front().is_object()) return;
  for (const auto &[field, name] : {std::pair("id", "tool_call_id"), std::pair("name", "name")})
    if (const auto value = calls.front().find(field); value != calls.front().end()) message[name] = *value;
}

Json to_json(const ChatMessage &message, const Form &form) {
  Json json = {{"role", message.role}, {"content", message.content}};
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  if (message.tool_calls.empty()) return json;
  const Json calls = Json::parse(message.tool_calls);
  if (message.role == "tool") {
    add_answered_call(calls, json);
    return json;
  }
  if (form.has_null_beside_calls && message.content.empty()) json["content"] = nullptr;
  add_calls(calls, form.arguments, json);
  return json;
}

Json to_json(std::span<const ChatMessage> messages, const ChatOptions &options, const Form &form) {
  Json json = Json::array();
  if (!options.system.empty()) json.push_back({{"role", "system"}, {"content", options.system}});
  for (const ChatMessage &message : messages) json.push_back(to_json(message, form));
  return json;
}

Json variables(std::span<const ChatMessage> messages, const ChatOptions &options, const Form &form) {
  Json json = {{"messages", to_json(messages, options, form)}, {"add_generation_prompt", true}};
  if (form.absent == Absent::kIsNone) json.update({{"tools", nullptr}, {"documents", nullptr}});
  if (!options.tools.empty()) json["tools"] = Json::parse(options.tools);
  if (options.enable_thinking) json["enable_thinking"] = *options.enable_thinking;
  return json;
}

// A file may be malicious, and to try it is not to take long.
constexpr jinja::Limits kTrialLimits = {.steps = 1'000'000};

constexpr const char *kNoCalls = "[]";  // content is null beside them, too, so that only calls make a difference

bool has_calls(const ChatMessage &message) {
  return message.role != "tool" && !message.tool_calls.empty() && !Json::parse(message.tool_calls).empty();
}

// Whether the prompt ends within reasoning that the answer goes on with.
bool opens_reasoning(std::string_view prompt) {
  while (prompt.ends_with('\n') || prompt.ends_with(' ')) prompt.remove_suffix(1);
  return prompt.ends_with("<think>");
}

}  // namespace

void check_utf8(std::string_view what, std::string_view text) {
  if (const size_t offset = find_invalid_utf8(text); offset != std::string_view::npos)
    throw EngineError(ErrorKind::kInvalidArgument, fmt::format("{}: invalid UTF-8 at byte offset {}", what, offset));
}

ConversationFormat::ConversationFormat(std::shared_ptr<const EngineState> engine)
    : engine_(std::move(engine)),
      template_(value_or_throw(template_of(engine_->require_tokenizer()), ErrorKind::kModel)) {}

std::string_view ConversationFormat::name_of_template() const {
  return engine_->options.chat_template.empty() ? "the model's chat template" : "the given chat template";
}

void ConversationFormat::check(const ChatOptions &options) const {
  check_utf8("system prompt", options.system);
  throw_unless(check_json_array("tools", options.tools));
  if (!options.tools.empty() && !knows("tools"))
    throw EngineError(ErrorKind::kInvalidArgument, fmt::format("tools: {} knows none", name_of_template()));
}

void ConversationFormat::check(const ChatMessage &message) {
  check_utf8("message", message.content);
  check_utf8("reasoning", message.reasoning);
  check_utf8("role", message.role);
  throw_unless(check_json_array("tool_calls", message.tool_calls));
}

jinja::Rendered ConversationFormat::render(std::span<const ChatMessage> messages, const ChatOptions &options) const {
  return render(messages, options, rendering_of(messages));
}

// Templates differ in what they fail with: what Hugging Face's transformers hand over counts as long as they do not.
jinja::Rendered ConversationFormat::render(std::span<const ChatMessage> messages, const ChatOptions &options,
                                           const Rendering &how) const {
  std::string first_error;
  for (const Absent absent : {Absent::kIsNone, Absent::kIsUndefined}) {
    for (const Arguments arguments : {Arguments::kAsObjects, Arguments::kAsTexts}) {
      const Json input = variables(messages, options, {absent, arguments, how.has_null_beside_calls});
      auto rendered =
          template_.chat_template.render({.input = input, .trusted = template_.trusted}, {.limits = how.limits});
      if (rendered) return *std::move(rendered);
      if (first_error.empty()) first_error = std::move(rendered.error().message);
    }
  }
  throw EngineError(ErrorKind::kInvalidArgument, fmt::format("{}, {}", name_of_template(), first_error));
}

// Who sends a message wants the model to know it: a text without it would be an answer to something else.
void ConversationFormat::check_roles(std::span<const ChatMessage> messages, const ChatOptions &options,
                                     const Rendering &how, std::string_view rendered) const {
  constexpr size_t kMostRoles = 8;  // each takes a rendering
  constexpr std::array<std::string_view, 4> kUsual = {"system", "user", "assistant", "tool"};
  std::set<std::string_view> others;
  for (const ChatMessage &message : messages)
    if (std::ranges::find(kUsual, message.role) == kUsual.end() && !message.content.empty())
      others.insert(message.role);
  if (others.size() > kMostRoles)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("roles: expected at most {} besides system, user, assistant and tool, found {}",
                                  kMostRoles, others.size()));
  for (const std::string_view role : others) {
    // With other texts, which begin with another letter. Without the messages a template that wants some would fail.
    std::vector<ChatMessage> changed(messages.begin(), messages.end());
    for (ChatMessage &message : changed)
      if (message.role == role && !message.content.empty())
        message.content.assign(message.content.size() + 1, message.content.front() == 'x' ? 'y' : 'x');
    if (rendered == text_if_rendered(changed, options, how))
      throw EngineError(ErrorKind::kInvalidArgument,
                        fmt::format("role: {} leaves out what {} says; expected system, user, assistant or tool",
                                    name_of_template(), quoted(role)));
  }
}

// Templates spell calls in many ways, and some look at what is beside them: what counts is what they show.
ConversationFormat::ShownCalls ConversationFormat::shown_calls() const {
  const std::lock_guard lock(mutex_);
  if (shown_calls_) return *shown_calls_;
  // Empty content first: many templates cut or join it, and fail with null.
  const bool alone = shows_calls("", {.has_null_beside_calls = false, .limits = kTrialLimits});
  const bool need_null = !alone && shows_calls("", {.has_null_beside_calls = true, .limits = kTrialLimits});
  const bool beside_content = shows_calls("x", {.has_null_beside_calls = need_null, .limits = kTrialLimits});
  shown_calls_ = {.need_null = need_null, .alone = alone || need_null, .beside_content = beside_content};
  return *shown_calls_;
}

// In a conversation as it usually is.
bool ConversationFormat::shows_calls(std::string_view content, const Rendering &how) const {
  // Nine characters, as Mistral's templates want them.
  constexpr const char *kCall = R"([{"id":"call00001","type":"function","function":{"name":"f","arguments":{"x":1}}}])";
  std::vector<ChatMessage> messages = {
      {.role = "user", .content = "x"},
      {.role = "assistant", .content = std::string(content), .tool_calls = kCall},
      {.role = "tool", .content = "x", .tool_calls = R"([{"id":"call00001","name":"f"}])"}};
  const auto with = text_if_rendered(messages, {}, how);
  messages[1].tool_calls = kNoCalls;
  return with && with != text_if_rendered(messages, {}, how);
}

bool ConversationFormat::knows_calls() const {
  const ShownCalls shown = shown_calls();
  return shown.alone || shown.beside_content || knows("tool_calls");
}

ConversationFormat::Rendering ConversationFormat::rendering_of(std::span<const ChatMessage> messages) const {
  return {.has_null_beside_calls = std::ranges::any_of(messages, has_calls) && shown_calls().need_null, .limits = {}};
}

// Likewise what the assistant called: its tools' results would answer nothing.
void ConversationFormat::check_calls(std::span<const ChatMessage> messages, const ChatOptions &options,
                                     const Rendering &how, std::string_view rendered) const {
  if (std::ranges::none_of(messages, has_calls)) return;
  if (const ShownCalls shown = shown_calls(); shown.alone && shown.beside_content) return;
  for (const bool is_beside_content : {false, true}) {
    const auto is_meant = [is_beside_content](const ChatMessage &message) {
      return has_calls(message) && !message.content.empty() == is_beside_content;
    };
    if (std::ranges::none_of(messages, is_meant)) continue;
    std::vector<ChatMessage> without(messages.begin(), messages.end());
    for (ChatMessage &message : without)
      if (is_meant(message)) message.tool_calls = kNoCalls;
    if (rendered != text_if_rendered(without, options, how)) continue;
    const char *lack = !knows_calls()      ? "knows none"
                       : is_beside_content ? "leaves out those beside content"
                                           : "leaves out those without content";
    throw EngineError(ErrorKind::kInvalidArgument, fmt::format("tool_calls: {} {}", name_of_template(), lack));
  }
}

std::optional<std::string> ConversationFormat::text_if_rendered(std::span<const ChatMessage> messages,
                                                                const ChatOptions &options,
                                                                const Rendering &how) const {
  try {
    return render(messages, options, how).text;
  } catch (const EngineError &) {  // what it cannot do without, it knows
    return std::nullopt;
  }
}

ChatPrompt ConversationFormat::prompt(std::span<const ChatMessage> messages, const ChatOptions &options) const {
  if (messages.empty())
    throw EngineError(ErrorKind::kInvalidArgument, "empty conversation: there is no message to answer");
  const Rendering how = rendering_of(messages);
  const jinja::Rendered rendered = render(messages, options, how);
  check_roles(messages, options, how, rendered.text);
  check_calls(messages, options, how, rendered.text);
  if (rendered.text.empty())
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("{} makes nothing of this conversation", name_of_template()));
  return {.tokens = value_or_throw(encode_chat(engine_->require_tokenizer(), template_, rendered),
                                   ErrorKind::kInvalidArgument),
          .begun = "",
          .in_reasoning = opens_reasoning(rendered.text),
          .may_call_tools = !options.tools.empty() && knows_calls()};
}

ChatPrompt ConversationFormat::begin_answer(ChatPrompt prompt, std::string_view text) const {
  const std::vector<int32_t> tokens = engine_->encode(text, false);
  prompt.tokens.insert(prompt.tokens.end(), tokens.begin(), tokens.end());
  prompt.begun += text;
  return prompt;
}

// As Qwen's templates write reasoning that is over.
ChatPrompt ConversationFormat::end_reasoning(ChatPrompt prompt) const {
  if (!prompt.in_reasoning) return prompt;
  return begin_answer(std::move(prompt), "\n</think>\n\n");
}

ChatPrompt ConversationFormat::end_reasoning(ChatPrompt prompt, const GenerateOptions &options) const {
  const bool has_form = !options.grammar.empty() || !options.json_schema.empty();
  return has_form ? end_reasoning(std::move(prompt)) : prompt;
}

}  // namespace bonsai::host
