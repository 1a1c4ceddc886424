// `bonsai chat` over a pipe and at a terminal, and `bonsai run --chat`, on the seedling.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/cli/pty.h"
#include "tests/model/tiny_model.h"

namespace bonsai::cli {
namespace {

using nlohmann::json;

Outcome chat(const std::string &input, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"chat", "-m", seedling(), "--temp", "0"};
  if (std::find(more.begin(), more.end(), "-n") == more.end()) more.insert(more.end(), {"-n", "12"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments, input);
}

std::vector<json> json_lines(const std::string &text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(Chat, AnswersGoToStdoutAndASummaryForEachToStderr) {
  const Outcome outcome = chat("Tell me of the King\nAnd of the Queen\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2) << outcome.out;
  EXPECT_GT(outcome.out.size(), 40u);
  std::istringstream lines(outcome.err);
  std::string first, second, rest;
  std::getline(lines, first);
  std::getline(lines, second);
  for (const std::string &line : {first, second}) {
    EXPECT_EQ(line.rfind("[prompt ", 0), 0u) << line;
    EXPECT_NE(line.find("; decode 12 tokens, "), std::string::npos) << line;
    EXPECT_NE(line.find(", ended by length; seed "), std::string::npos) << line;
  }
  EXPECT_NE(first.find(", 0 reused, "), std::string::npos) << first;
  EXPECT_EQ(second.find(", 0 reused, "), std::string::npos) << second;
  EXPECT_FALSE(std::getline(lines, rest)) << rest;
}

TEST(Chat, AStdinThatCannotBeReadIsNotItsEnd) {
  const std::vector<std::string> arguments = {"chat", "-m", seedling()};
  const Outcome folder = run_in_shell("\"$@\" </", arguments), closed = run_in_shell("\"$@\" <&-", arguments);
  EXPECT_EQ(folder.exit_code, 1);
  EXPECT_EQ(folder.err, "bonsai chat: stdin: cannot read: Is a directory\n");
  EXPECT_EQ(closed.exit_code, 1);
  EXPECT_EQ(closed.err, "bonsai chat: stdin: cannot read: Bad file descriptor\n");
}

TEST(Chat, JsonIsOneLineForEachAnswer) {
  const Outcome outcome = chat("one\ntwo\n", {"--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<json> lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["tokens"].size(), 12u);
  EXPECT_EQ(lines[0]["reused_tokens"], 0);
  EXPECT_GT(lines[1]["reused_tokens"], lines[0]["prompt_tokens"]);
  EXPECT_EQ(lines[1]["finish_reason"], "length");
  EXPECT_EQ(lines[1]["reasoning"], "");
  EXPECT_EQ(outcome.err, "");
}

// The file that /save writes tells what was understood as a message.
json conversation_after(const std::string &input) {
  const std::string file = write_file("saved.json", "");
  const Outcome outcome = chat(input + "/save " + file + "\n");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(read_file(file));
}

// What a person types to say several lines is text there.
TEST(Chat, EveryLineOfAPipeIsAMessage) {
  const json saved = conversation_after("a\\\nb\n\"\"\"x\ny\n\n   \n\"\"\"\n");
  const std::vector<std::string> lines = {"a\\", "b", "\"\"\"x", "y", "\"\"\""};
  ASSERT_EQ(saved["messages"].size(), 2 * lines.size()) << saved;
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(saved["messages"][2 * i]["content"], lines[i]);
}

TEST(Chat, RegenResetAndSystemChangeTheConversation) {
  const json again = conversation_after("hi\n/regen\n/system be kind\n/think off\n");
  EXPECT_EQ(again["messages"].size(), 2u);
  EXPECT_EQ(again["system"], "be kind");
  EXPECT_EQ(again["enable_thinking"], false);
  const json empty = conversation_after("/system be kind\nhi\n/reset\n");
  EXPECT_EQ(empty["messages"].size(), 0u);
  EXPECT_EQ(empty["system"], "be kind");
}

TEST(Chat, WhatWasSavedGoesOnAsItWould) {
  const std::string file = write_file("saved.json", "");
  const auto answers = json_lines(chat("one\n/save " + file + "\ntwo\n", {"--json"}).out);
  const auto later = json_lines(chat("/load " + file + "\ntwo\n/exit\nthree\n", {"--json"}).out);
  ASSERT_EQ(answers.size(), 2u);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0]["tokens"], answers[1]["tokens"]);
}

TEST(Chat, MistakesInCommandsAreSaidAndTheConversationGoesOn) {
  const std::string bad = write_file("bad.json", "{\"format\": \"bonsai-chat\", \"version\": 7}");
  const Outcome outcome =
      chat("/nope\n/reset now\n/think maybe\n/save\n/save /nonexistent/x\n/load /nonexistent/x\n/load " + bad +
           "\n/regen\n/help\nhi\n");
  EXPECT_EQ(outcome.exit_code, 1) << "a script would not see that nothing was saved";
  EXPECT_EQ(outcome.err.rfind("unknown command '/nope': /help shows them all; with a blank in front it is a message\n"
                              "/reset takes no argument\n"
                              "/think: expected on, off or auto, found 'maybe'\n"
                              "/save: expected the name of a file\n"
                              "/save: /nonexistent/x: cannot create a file in /nonexistent: No such file or directory\n"
                              "/load: /nonexistent/x: cannot open: No such file or directory\n"
                              "/load: " +
                                  bad +
                                  ": version is 7; this program knows 1\n"
                                  "empty conversation: there is no message to answer\n"
                                  "  /help               this list\n",
                              0),
            0u)
      << outcome.err;
  EXPECT_NE(outcome.out, "");
}

TEST(Chat, AMessageThatDoesNotFitIsRefusedInWords) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "once upon a time ";
  const Outcome outcome = chat(text + "\nhi\n", {"-c", "100"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find(" tokens long with this message, and the context holds 100 with at least one for the "
                             "answer: shorten the message, start a new conversation, or give it more context: the "
                             "model knows 1024\n(/reset starts anew; the option -c N gives more context, up to the "
                             "model's 1024)\n"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out, "") << "the next message is answered";
}

TEST(Chat, AnAnswerThatFillsTheContextSaysSo) {
  const Outcome outcome = chat("hi\n", {"-c", "30", "-n", "100", "--ignore-eos"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(
      outcome.err.find("the context of 30 tokens is full, so the answer ends here: /reset starts anew; the option "
                       "-c N gives more, up to the model's 1024\n"),
      std::string::npos)
      << outcome.err;
}

TEST(Chat, WhatCannotBeAnsweredOverAPipeMakesTheExitCodeOne) {
  const Outcome outcome = chat("a\xff\nhi\n", {"--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "message: invalid UTF-8 at byte offset 1\n");
  EXPECT_EQ(json_lines(outcome.out).size(), 1u) << "the next message is answered";
  EXPECT_EQ(chat("hi\n", {"-c", "10"}).exit_code, 1);
  const Outcome regen = chat("/regen\n");
  EXPECT_EQ(regen.exit_code, 1);
  EXPECT_EQ(regen.err, "empty conversation: there is no message to answer\n");
  EXPECT_EQ(chat("hi\n/system " + std::string(2000, 'x') + "\n/regen\n", {"-c", "100"}).exit_code, 1);
}

TEST(Chat, AnInvalidGrammarOrSchemaFailsAtTheStart) {
  const std::string grammar = write_file("bad.gbnf", "root ::= [a\n");
  for (const std::vector<std::string> &option :
       {std::vector<std::string>{"--json-schema", R"({"type": "nope"})"}, {"--grammar", grammar}}) {
    const Outcome outcome = chat("", option);
    EXPECT_EQ(outcome.exit_code, 1);
    std::vector<std::string> run = {"run", "-m", seedling(), "-p", "x"};
    run.insert(run.end(), option.begin(), option.end());
    EXPECT_EQ(outcome.err, "bonsai chat" + run_program(run).err.substr(std::string("bonsai run").size()));
  }
}

TEST(Chat, MoreContextIsOfferedOnlyWhereTheModelHasMore) {
  const test::TinyModelFile model({.context = 64});
  const std::vector<std::string> arguments = {"chat", "-m", model.path(), "-n", "100", "--ignore-eos"};
  const Outcome full = run_program(arguments, "hi\n");
  EXPECT_NE(full.err.find("the context of 64 tokens is full, so the answer ends here: /reset starts anew\n"),
            std::string::npos)
      << full.err;
  const Outcome refused = run_program(arguments, std::string(200, 'x') + "\n");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("start a new conversation\n(/reset starts anew)\n"), std::string::npos) << refused.err;
}

TEST(Chat, TheSummaryCountsOneTokenAsOne) {
  const Outcome outcome = chat("hi\n", {"-n", "1"});
  EXPECT_NE(outcome.err.find("; decode 1 token, "), std::string::npos) << outcome.err;
}

TEST(Chat, OneMessageIsOne) {
  const std::string file = write_file("one.json", R"({"format": "bonsai-chat", "version": 1,
      "messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(chat("/load " + file + "\n/save " + file + "\n").err,
            "1 message is loaded\n1 message is in " + file + "\n");
}

TEST(Chat, ThinkingThatNobodyHeedsIsWarnedOf) {
  const std::string warning = "warning: the model's chat template does not let thinking be switched on or off\n";
  EXPECT_EQ(chat("/think on\n/think auto\n").err, warning + "thinking is on\nthinking is as the model likes it\n");
  EXPECT_EQ(chat("", {"--no-think"}).err, warning);
  const std::string file = write_file(
      "thinking.json", R"({"format": "bonsai-chat", "version": 1, "enable_thinking": true, "messages": []})");
  EXPECT_EQ(chat("/load " + file + "\n").err, warning + "0 messages are loaded\n");
}

// A tiny model whose template knows tools and calls of them.
test::TinyModel model_with_tools() {
  test::TinyModel model;
  model.metadata = [](gguf::Writer &writer) {
    writer.set_string("tokenizer.chat_template",
                      "{{ tools | tojson }}{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}"
                      "{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}<|im_start|>a:");
  };
  return model;
}

// A tiny model that can only call a tool.
TEST(Chat, ToolsAreCalledAndAnsweredFor) {
  const test::TinyModelFile file(model_with_tools());
  const std::string grammar = write_file("call.gbnf", R"(root ::= "Hm.\n<tool_call>{\"name\": \"f\"}</tool_call>")");
  std::vector<std::string> arguments = {"chat", "-m", file.path(), "--grammar", grammar, "--temp", "0", "-n", "100"};
  arguments.insert(arguments.end(), {"--tools", write_file("tools.json", R"([{"name": "f"}])")});
  const std::string input = "go\n/tool 42\n";
  const Outcome outcome = run_program(arguments, input);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string answer = "Hm.\n{\"name\":\"f\",\"arguments\":{}}\n";
  EXPECT_EQ(outcome.out, answer + answer);
  EXPECT_NE(outcome.err.find("(/tool RESULT says what came of the call)\n"), std::string::npos) << outcome.err;

  arguments.push_back("--json");
  const std::vector<json> lines = json_lines(run_program(arguments, input).out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1]["text"], "Hm.");
  EXPECT_EQ(lines[1]["tool_calls"], json::parse(R"([{"name": "f", "arguments": {}}])"));

  EXPECT_EQ(chat("/tool 42\n").err, "/tool: the model was given no tools: the option --tools FILE does\n");
}

TEST(Chat, WrongCallsNameTheOption) {
  EXPECT_EQ(chat("hi\n", {"--grammar", "-"}).err,
            "bonsai chat: stdin is asked for twice: by --grammar and the messages (see 'bonsai chat --help')\n");
  EXPECT_EQ(chat("", {"--think", "--no-think"}).err,
            "bonsai chat: --think and --no-think exclude each other: choose one (see 'bonsai chat --help')\n");
  EXPECT_EQ(chat("", {"--tools", "/nonexistent/tools"}).err,
            "bonsai chat: /nonexistent/tools: cannot read: No such file or directory\n");
  EXPECT_EQ(chat("", {"--tools", write_file("tools.json", "[]")}).err,
            "bonsai chat: tools: the model's chat template knows none\n");
  EXPECT_EQ(run_program({"run", "--system", "x"}).err,
            "bonsai run: --system is for --chat (see 'bonsai run --help')\n");
  EXPECT_EQ(run_program({"run", "--no-think"}).err, "bonsai run: --no-think is for --chat (see 'bonsai run --help')\n");
}

TEST(Chat, RunWithChatAnswersOneMessage) {
  const auto answers = json_lines(chat("Tell me of the King\n", {"--json"}).out);
  const Outcome run =
      run_program({"run", "-m", seedling(), "--chat", "-p", "Tell me of the King", "--temp", "0", "-n", "12"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, answers[0]["text"].get<std::string>() + "\n");
  EXPECT_NE(run.err.find("\ndecode   12 tokens, "), std::string::npos) << run.err;
}

// What was thought, said and called, apart from one another, whichever command asks.
TEST(Chat, RunWithChatHasTheJsonOfAnAnswer) {
  const test::TinyModelFile file(model_with_tools());
  const std::string said = R"(<think>\nwhy\n</think>\n\nI see.\n<tool_call>{\"name\": \"f\"}</tool_call>)";
  const std::string grammar = write_file("all.gbnf", "root ::= \"" + said + "\"");
  const std::vector<std::string> options = {"-m",
                                            file.path(),
                                            "--grammar",
                                            grammar,
                                            "--temp",
                                            "0",
                                            "-n",
                                            "200",
                                            "--json",
                                            "--tools",
                                            write_file("tools.json", R"([{"name": "f"}])")};
  std::vector<std::string> once = {"run", "--chat", "-p", "hi"}, conversation = {"chat"};
  once.insert(once.end(), options.begin(), options.end());
  conversation.insert(conversation.end(), options.begin(), options.end());
  const std::vector<json> run = json_lines(run_program(once).out),
                          chat = json_lines(run_program(conversation, "hi\n").out);
  ASSERT_EQ(run.size(), 1u);
  ASSERT_EQ(chat.size(), 1u);
  EXPECT_EQ(run[0]["text"], "I see.");
  EXPECT_EQ(run[0]["reasoning"], "why");
  EXPECT_EQ(run[0]["tool_calls"], json::parse(R"([{"name": "f", "arguments": {}}])"));
  for (const char *same : {"text", "reasoning", "tool_calls", "tokens", "finish_reason"})
    EXPECT_EQ(run[0][same], chat[0][same]) << same;
}

TEST(Chat, TheTemplateMayBeTheUsersOwn) {
  const std::string file = write_file("own.jinja", "{% for m in messages %}{{ m.content }}{% endfor %} said the King,");
  const Outcome plain =
      run_program({"run", "-m", seedling(), "-p", "Well well said the King,", "--temp", "0", "-n", "9"});
  const Outcome own = run_program(
      {"run", "-m", seedling(), "--chat", "--chat-template-file", file, "-p", "Well well", "--temp", "0", "-n", "9"});
  EXPECT_EQ(own.exit_code, 0) << own.err;
  EXPECT_EQ("Well well said the King," + own.out, plain.out);
  const std::string bad = write_file("bad.jinja", "a\n{% for %}"), empty = write_file("empty.jinja", "");
  const Outcome refused = chat("hi\n", {"--chat-template-file", bad});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(refused.err.starts_with("bonsai chat: " + bad + ": line 2: ")) << refused.err;
  const std::string strict = write_file("strict.jinja", "{{ raise_exception('no') }}");
  EXPECT_EQ(chat("hi\n", {"--chat-template-file", strict}).err,
            "the given chat template, line 1: the template refuses the conversation: 'no'\n");
  EXPECT_EQ(chat("hi\n", {"--chat-template-file", empty}).err,
            "bonsai chat: " + empty + ": is empty, expected a chat template\n");
  EXPECT_EQ(run_program({"run", "--chat-template-file", file}).err,
            "bonsai run: --chat-template-file is for --chat (see 'bonsai run --help')\n");
}

TEST(Chat, SigtermEndsTheProgramWhileItAnswers) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "the King ";
  RunningProgram program({"run", "-m", seedling(), "--chat", "-p", text, "--ignore-eos", "-n", "700"});
  program.wait_for_output();
  program.send_signal(SIGTERM);
  EXPECT_EQ(program.finish().exit_code, 143);
}

// At a terminal.

std::vector<std::string> at_terminal(std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"chat", "-m", seedling(), "--temp", "0"};
  if (std::find(more.begin(), more.end(), "-n") == more.end()) more.insert(more.end(), {"-n", "5"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(ChatTerminal, LinesCanBeEditedAndCalledBack) {
  const std::string file = write_file("saved.json", "");
  TerminalProgram program(at_terminal());
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("hellp" + std::string(kBackspace) + "o K\u00e4se!" + std::string(kBackspace) + "\r");
  ASSERT_TRUE(program.wait_for("ended by length"));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type(std::string(kUp) + " two\r");
  ASSERT_TRUE(program.wait_for("ended by length"));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("/save " + file + "\r");
  ASSERT_TRUE(program.wait_for("4 messages are in"));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type(kCtrlD);
  EXPECT_EQ(program.finish(), 0);
  const json saved = json::parse(read_file(file));
  EXPECT_EQ(saved["messages"][0]["content"], "hello K\u00e4se");
  EXPECT_EQ(saved["messages"][2]["content"], "hello K\u00e4se two");
}

TEST(ChatTerminal, APastedTextIsOneMessageOfSeveralLines) {
  const std::string file = write_file("pasted.json", "");
  TerminalProgram program(at_terminal());
  ASSERT_TRUE(program.wait_for("\x1b[?2004h")) << "the terminal is asked to mark what is pasted";
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("Say: \x1b[200~K\u00e4se\r\n\tone\x07\\\r\x1b[201~!\r");
  ASSERT_TRUE(program.wait_for("\x1b[?2004l")) << "and no longer while it is not read";
  ASSERT_TRUE(program.wait_for("ended by length"));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("\x1b[200~\"\"\"one\rtwo\r\x1b[201~\r");
  ASSERT_TRUE(program.wait_for("ended by length")) << "its quotes open nothing";
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("\x1b[200~/save " + file + "\r\x1b[201~\r");
  ASSERT_TRUE(program.wait_for("4 messages are in")) << "a line end that was pasted with a command is none of it";
  ASSERT_TRUE(program.wait_for_prompt());
  program.type(kCtrlD);
  EXPECT_EQ(program.finish(), 0);
  const json saved = json::parse(read_file(file));
  EXPECT_EQ(saved["messages"][0]["content"], "Say: K\u00e4se\n\n\tone\\\n!");
  EXPECT_EQ(saved["messages"][2]["content"], "\"\"\"one\ntwo");
}

TEST(Chat, WhatOnlyBeginsLikeACommandIsAMessage) {
  const std::string file = write_file("slashes.json", "");
  const std::vector<std::string> messages = {"/no_think Hello", "/etc/hosts is what?", "// a comment", " /help me",
                                             "/"};
  const Outcome outcome = chat(fmt::format("{}\n/save {}\n", fmt::join(messages, "\n"), file));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json saved = json::parse(read_file(file));
  ASSERT_EQ(saved["messages"].size(), 2 * messages.size());
  for (size_t i = 0; i < messages.size(); ++i) EXPECT_EQ(saved["messages"][2 * i]["content"], messages[i]);
}

TEST(ChatTerminal, CtrlCClearsTheLineAndLeavesAnEmptyOne) {
  TerminalProgram program(at_terminal());
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("/nope" + std::string(kCtrlC) + "/reset\r");
  ASSERT_TRUE(program.wait_for("the conversation is forgotten"));
  EXPECT_EQ(program.screen().find("unknown command"), std::string::npos);
  ASSERT_TRUE(program.wait_for_prompt());
  program.type(kCtrlC);
  EXPECT_EQ(program.finish(), 0);
}

TEST(ChatTerminal, MessagesMayHaveSeveralLines) {
  const std::string file = write_file("several.json", "");
  TerminalProgram program(at_terminal());
  for (const std::vector<std::string> &lines : {std::vector<std::string>{"a\\", "b\\", "c"},
                                                {"\"\"\"", "x", "", "/y", "\"\"\""},
                                                {"\"\"\"one\"\"\""},
                                                {"\"\"\"p", "q\"\"\""}}) {
    ASSERT_TRUE(program.wait_for_prompt());
    program.type(lines[0] + "\r");
    for (size_t i = 1; i < lines.size(); ++i) {
      ASSERT_TRUE(program.wait_for_prompt("... "));
      program.type(lines[i] + "\r");
    }
    ASSERT_TRUE(program.wait_for("ended by length"));
  }
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("/save " + file + "\r");
  ASSERT_TRUE(program.wait_for("8 messages are in"));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type(kCtrlD);
  EXPECT_EQ(program.finish(), 0);
  const json saved = json::parse(read_file(file));
  EXPECT_EQ(saved["messages"][0]["content"], "a\nb\nc");
  EXPECT_EQ(saved["messages"][2]["content"], "x\n\n/y");
  EXPECT_EQ(saved["messages"][4]["content"], "one");
  EXPECT_EQ(saved["messages"][6]["content"], "p\nq");
}

// /regen tells whether anything was sent: it has nothing to answer.
TEST(ChatTerminal, CtrlCDiscardsAMessageOfSeveralLines) {
  TerminalProgram program(at_terminal());
  const auto nothing_was_sent = [&program] {
    if (!program.wait_for_prompt()) return false;
    program.type("/regen\r");
    return program.wait_for("empty conversation: there is no message to answer");
  };
  // At the beginning of a line and in the middle of one, within quotes and behind a backslash.
  for (const char *first : {"\"\"\"one\r", "one\\\r"}) {
    for (const char *unfinished : {"", "two"}) {
      ASSERT_TRUE(program.wait_for_prompt());
      program.type(first);
      ASSERT_TRUE(program.wait_for_prompt("... "));
      program.type(unfinished + std::string(kCtrlC));
      ASSERT_TRUE(nothing_was_sent()) << first << unfinished;
    }
  }
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("one\\\r");
  ASSERT_TRUE(program.wait_for_prompt("... "));
  program.type("two\r");
  ASSERT_TRUE(program.wait_for("ended by length")) << "a message that is finished is still answered";
  ASSERT_TRUE(program.wait_for_prompt());
  program.type(kCtrlC);
  EXPECT_EQ(program.finish(), 0);
}

TEST(ChatTerminal, AMessageThatCannotBeAnsweredIsNoFailureOfTheProgram) {
  TerminalProgram program(at_terminal({"-c", "10"}));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("hi\r");
  ASSERT_TRUE(program.wait_for("the context holds 10"));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type(kCtrlD);
  EXPECT_EQ(program.finish(), 0);
}

TEST(ChatTerminal, AnInvalidSchemaFailsAtTheStart) {
  TerminalProgram program(at_terminal({"--json-schema", R"({"type": "nope"})"}));
  EXPECT_TRUE(program.wait_for("bonsai chat: JSON schema, '#': "));
  EXPECT_EQ(program.finish(), 1);
}

TEST(ChatTerminal, AWindowMayChangeItsSize) {
  TerminalProgram program(at_terminal());
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("abc");
  ASSERT_TRUE(program.wait_for("abc"));
  program.resize(24, 20);
  ASSERT_TRUE(program.wait_for("\r\x1b[J> abc")) << "the line is shown anew";
  program.type(std::string(2 * 20, 'd') + "\x01");  // Ctrl-A: to the line's begin, which is two rows up
  ASSERT_TRUE(program.wait_for("\x1b[2A"));
  program.type("\r");
  ASSERT_TRUE(program.wait_for("ended by length"));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type(kCtrlD);
  EXPECT_EQ(program.finish(), 0);
}

TEST(ChatTerminal, CtrlCStopsTheAnswerAndNotTheProgram) {
  // So many tokens that the answer is still going on when the key comes.
  TerminalProgram program(at_terminal({"-n", "100000", "--ignore-eos", "--backend", backend_file("template")}));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("Tell me of the King\r");
  ASSERT_TRUE(program.wait_for("King\r\n"));
  ASSERT_TRUE(program.wait_for(" "));
  program.type(kCtrlC);
  ASSERT_TRUE(program.wait_for("ended by cancelled"));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("/reset\r");
  ASSERT_TRUE(program.wait_for("the conversation is forgotten"));
  ASSERT_TRUE(program.wait_for_prompt());
  program.type("/exit\r");
  EXPECT_EQ(program.finish(), 0);
}

// A model that begins every answer with reasoning, and has no time to end it.
test::TinyModel thinking_model() {
  test::TinyModel model;
  model.metadata = [](gguf::Writer &writer) {
    writer.set_string("tokenizer.chat_template", "{{ messages[-1].content }}{{ '<think>\\n' }}");
  };
  return model;
}

TEST(ChatTerminal, ReasoningIsDimOrHidden) {
  const test::TinyModelFile model(thinking_model());
  const std::vector<std::string> arguments = {"chat", "-m", model.path(), "--temp", "0", "-n", "6", "--ignore-eos"};
  for (const bool hidden : {false, true}) {
    std::vector<std::string> more = arguments;
    if (hidden) more.push_back("--hide-thinking");
    TerminalProgram program(more);
    ASSERT_TRUE(program.wait_for_prompt());
    program.type("hi\r");
    ASSERT_TRUE(program.wait_for("ended by length"));
    EXPECT_EQ(program.screen().find("\x1b[2m") == std::string::npos, hidden) << program.screen();
    EXPECT_EQ(program.screen().find("\x1b[0m\r\n") == std::string::npos, hidden) << program.screen();
    ASSERT_TRUE(program.wait_for_prompt());
    program.type(kCtrlD);
    EXPECT_EQ(program.finish(), 0);
  }
  // A pipe gets the answer alone, and there is none yet.
  EXPECT_EQ(run_program(arguments, "hi\n").out, "");
  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  const auto lines = json_lines(run_program(as_json, "hi\n").out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["text"], "");
  EXPECT_NE(lines[0]["reasoning"], "");
}

TEST(ChatTerminal, EscapesAreForTerminalsThatObeyThemAndStylesForThoseWhoWantThem) {
  const test::TinyModelFile model(thinking_model());
  const auto screen = [&model](const std::string &variable) {
    TerminalProgram program({"chat", "-m", model.path(), "--temp", "0", "-n", "6", "--ignore-eos"}, {variable});
    EXPECT_TRUE(program.wait_for_prompt());
    program.type("hi\r");
    EXPECT_TRUE(program.wait_for("ended by length"));
    EXPECT_TRUE(program.wait_for_prompt());
    program.type(kCtrlD);
    EXPECT_EQ(program.finish(), 0);
    return program.screen();
  };
  EXPECT_EQ(screen("TERM=dumb").find('\x1b'), std::string::npos);
  EXPECT_EQ(screen("NO_COLOR=1").find("\x1b[2m"), std::string::npos);
  EXPECT_NE(screen("NO_COLOR=").find("\x1b[2m"), std::string::npos) << "an empty one says nothing";
}

}  // namespace
}  // namespace bonsai::cli
