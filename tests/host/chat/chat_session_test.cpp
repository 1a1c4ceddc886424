// Conversations in session files.
#include <bonsai/chat.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <vector>

#include "host/engine/session_file.h"
#include "tests/host/chat/chat_support.h"

namespace bonsai {
namespace {

// A file of the running test's own, gone with it.
class ChatOnDisk : public ChatTest {
 protected:
  ~ChatOnDisk() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "/bonsai-chat-" + std::to_string(getpid()) + ".session";
};

TEST_F(ChatOnDisk, GoesOnWithoutComputingItsTokensAgain) {
  chat_.set_system("S");
  chat_.set_enable_thinking(false);
  chat_.send("a first message, which is long enough", talk());
  chat_.save_session(path_);
  const ChatReply expected = chat_.send("more", talk());

  const Engine engine = load(file_);  // as on another day
  Chat other(engine, {.system = "of no use"});
  other.send("nor is this", talk());
  other.load_session(path_);
  EXPECT_EQ(other.options().system, "S");
  EXPECT_EQ(other.options().enable_thinking, false);
  EXPECT_EQ(other.messages().size(), 2u);
  const ChatReply reply = other.send("more", talk());
  EXPECT_EQ(reply.generation.tokens, expected.generation.tokens);
  EXPECT_GT(expected.reused_tokens, 40u);
  EXPECT_EQ(reply.reused_tokens, expected.reused_tokens);
  EXPECT_EQ(reply.generation.stats.prompt_tokens, expected.generation.stats.prompt_tokens);
  EXPECT_EQ(other.save(), chat_.save());
}

TEST_F(ChatOnDisk, MayBeSavedBeforeAnythingWasSaid) {
  chat_.set_system("S");
  chat_.save_session(path_);
  Chat other(engine_);
  other.load_session(path_);
  EXPECT_EQ(other.options().system, "S");
  EXPECT_EQ(other.send("hi", talk()).generation.tokens, chat_.send("hi", talk()).generation.tokens);
}

// The conversation stays as it was, and so does what is computed of it.
TEST_F(ChatOnDisk, IsRefusedWhereItMeansNothing) {
  const std::string seedling_chat = path_ + ".seedling";
  Chat(load_seedling()).save_session(seedling_chat);
  engine_.new_session().save(path_);
  chat_.send("a first message", talk());
  const std::string before = chat_.save();
  EXPECT_EQ(thrown_by([&] { chat_.load_session(path_); }).message,
            path_ + ": a session without a conversation, expected one that a chat has saved");
  const Thrown other_model = thrown_by([&] { chat_.load_session(seedling_chat); });
  EXPECT_EQ(other_model.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(other_model.message,
            seedling_chat + ": a session of another model: its keys and values would mean nothing here");
  EXPECT_EQ(thrown_by([&] { chat_.load_session("/nowhere/x"); }).message,
            "/nowhere/x: cannot open: No such file or directory");
  EXPECT_EQ(thrown_by([&] { chat_.load_session(file_.path()); }).message, file_.path() + ": not a session file");
  EXPECT_EQ(thrown_by([&] { chat_.save_session("/nowhere/x"); }).message,
            "/nowhere/x: cannot create a file in /nowhere: No such file or directory");
  EXPECT_EQ(chat_.save(), before);
  EXPECT_GT(chat_.send("more", talk()).reused_tokens, 15u);
  std::filesystem::remove(seedling_chat);
}

TEST_F(ChatOnDisk, IsRefusedWhereItIsDamaged) {
  chat_.send("hi", talk());
  chat_.save_session(path_);
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-20, std::ios::end);
  file.put('#');
  file.close();
  const std::string message = thrown_by([&] { chat_.load_session(path_); }).message;
  EXPECT_TRUE(message.starts_with(path_ + ": session file is damaged: checksum ")) << message;
}

// Its tokens are a text like any other's.
TEST_F(ChatOnDisk, IsASessionToo) {
  const ChatReply reply = chat_.send("hi", talk());
  chat_.save_session(path_);
  Session session = engine_.new_session();
  session.load(path_);
  const auto answer = session.tokens().last(reply.generation.tokens.size());
  EXPECT_EQ(std::vector<int32_t>(answer.begin(), answer.end()), reply.generation.tokens);
}

// A file whose checksum is right, of a program that keeps something else with its sessions.
TEST_F(ChatOnDisk, IsRefusedWhereItsConversationIsNone) {
  host::SessionFile file;
  chat_.save_session(path_);
  std::vector<std::byte> bytes(std::filesystem::file_size(path_));
  std::ifstream(path_, std::ios::binary)
      .read(reinterpret_cast<char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file = *host::parse_session_file(bytes);
  file.note = R"({"format": "bonsai-chat", "version": 2, "messages": []})";
  ASSERT_TRUE(host::write_session_file(path_, file));
  EXPECT_EQ(thrown_by([&] { chat_.load_session(path_); }).message, path_ + ": version is 2; this program knows 1");
  EXPECT_EQ(chat_.messages().size(), 0u);
  file.tokens.push_back(-5);
  ASSERT_TRUE(host::write_session_file(path_, file));
  EXPECT_EQ(thrown_by([&] { chat_.load_session(path_); }).message,
            path_ + ": token id -5 is outside the vocabulary of 272");
}

}  // namespace
}  // namespace bonsai
