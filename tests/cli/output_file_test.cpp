// Promise of everything that the program writes to a file, sessions, conversations and reports: it replaces a regular
// file, whole or not at all, and touches nothing else; a session replaces no other file than a session.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/gguf/split_file.h"

namespace bonsai::cli {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using nlohmann::json;

const std::string kNotRegular = ": is not a regular file, expected one or a new name\n";

mode_t permissions(const std::string &path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

// A pipe that nobody reads or writes: opening it as a file would wait for ever.
std::string make_fifo(const std::string &folder) {
  const std::string path = folder + "/fifo";
  EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  return path;
}

Outcome run_and_save(const std::string &path) {
  return run_program({"run", "-m", seedling(), "-p", "Once", "-n", "2", "--temp", "0", "--save-session", path});
}

Outcome chat(const std::string &input, const std::vector<std::string> &more = {}) {
  std::vector<std::string> arguments = {"chat", "-m", seedling(), "-n", "2", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments, input);
}

Outcome bench_and_report(const std::string &path) {
  return run_program({"bench", "-m", seedling(), "-p", "8", "-n", "4", "-r", "1", "--stream-bytes", "65536",
                      "--backend", backend_file("template"), "--backend-strict", "--report", path});
}

TEST(OutputFile, WhatIsNoRegularFileIsRefusedBeforeAnyWork) {
  const std::string folder = make_folder("files"), fifo = make_fifo(folder);
  fs::create_symlink("fifo", folder + "/link");
  for (const std::string &path : {fifo, folder + "/link", folder}) {
    const Outcome run = run_and_save(path), talk = chat("hi\n", {"--save-session", path}),
                  bench = bench_and_report(path);
    EXPECT_EQ(run.err, "bonsai run: " + path + kNotRegular);
    EXPECT_EQ(talk.err, "bonsai chat: " + path + kNotRegular);
    EXPECT_EQ(bench.err, "bonsai bench: " + path + kNotRegular);
    for (const Outcome &outcome : {run, talk, bench}) {
      EXPECT_EQ(outcome.exit_code, 1);
      EXPECT_EQ(outcome.out, "");
    }
  }
  EXPECT_TRUE(fs::is_fifo(fifo));
  EXPECT_EQ(files_in(folder), (Names{"fifo", "link"}));
}

TEST(OutputFile, ChatRefusesPipesAndDevicesAndGoesOn) {
  const std::string folder = make_folder("files"), fifo = make_fifo(folder);
  const Outcome outcome = chat("/save " + fifo + "\n/save-session " + fifo + "\n/load " + fifo +
                               "\n/load /dev/zero\n/load-session " + fifo + "\n/load " + folder + "\nhi\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "/save: " + fifo + kNotRegular + "/save-session: " + fifo + kNotRegular + "/load: " + fifo +
                             ": cannot be mapped, expected a regular file\n" +
                             "/load: /dev/zero: cannot be mapped, expected a regular file\n" +
                             "/load-session: " + fifo + ": cannot be mapped, expected a regular file\n" +
                             "/load: " + folder + ": is a directory, expected a file\n");
  EXPECT_NE(outcome.out, "") << "the message behind them is answered";
  EXPECT_TRUE(fs::is_fifo(fifo));
  EXPECT_EQ(files_in(folder), Names{"fifo"});
}

TEST(OutputFile, ALinkStaysAndItsTargetIsReplaced) {
  const std::string folder = make_folder("files"), link = folder + "/link", target = folder + "/target";
  fs::create_symlink("target", link);  // which is not there yet
  const auto expect_replaced = [&](const Outcome &outcome) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_FALSE(fs::is_symlink(target));
    EXPECT_EQ(files_in(folder), (Names{"link", "target"}));
  };
  expect_replaced(run_and_save(link));
  EXPECT_EQ(read_file(target).substr(0, 8), "BONSAISE");
  expect_replaced(bench_and_report(link));
  EXPECT_EQ(read_file(target).substr(0, 5), "<?xml");
  expect_replaced(chat("hi\n/save " + link + "\n"));
  EXPECT_EQ(json::parse(read_file(target))["messages"].size(), 2u);
  fs::resize_file(target, 0);  // one that holds something else is spared
  expect_replaced(chat("hi\n/save-session " + link + "\n"));
  EXPECT_EQ(read_file(target).substr(0, 8), "BONSAISE");
}

TEST(OutputFile, KeepsItsPermissionsAndANewSessionIsPrivate) {
  const std::string folder = make_folder("files");
  const std::string old_session = folder + "/old", new_session = folder + "/new";
  ASSERT_EQ(run_and_save(old_session).exit_code, 0);
  EXPECT_EQ(permissions(old_session), 0600u);
  ASSERT_EQ(::chmod(old_session.c_str(), 0664), 0);
  ASSERT_EQ(chat("/save-session " + old_session + "\n", {"--save-session", new_session}).exit_code, 0);
  EXPECT_EQ(permissions(old_session), 0664u);
  EXPECT_EQ(permissions(new_session), 0600u);
  ASSERT_EQ(chat("/save " + new_session + "\n").exit_code, 0);
  EXPECT_EQ(permissions(new_session), 0600u);
}

// A limit on file sizes stands for a disk that is full.
TEST(OutputFile, AFullDiskLeavesTheOldFileAndNothingElse) {
  const std::string folder = make_folder("files");
  const std::string talk = folder + "/talk.json", session = folder + "/tale.session";
  const std::string limited = "ulimit -f 16; exec \"$@\"";  // at most 16 KiB, whatever unit the shell has
  const std::string no_room = ": cannot write: File too large\n";
  ASSERT_EQ(chat("/system be brief\n/save " + talk + "\n").exit_code, 0);
  const std::string good_talk = read_file(talk);
  const Outcome saved = run_in_shell(limited, {"chat", "-m", seedling()},
                                     "/system " + std::string(20'000, 'x') + "\n/save " + talk + "\n");
  EXPECT_EQ(saved.exit_code, 1);
  EXPECT_EQ(saved.err, "the system prompt is set\n/save: " + talk + no_room);
  EXPECT_EQ(read_file(talk), good_talk);

  ASSERT_EQ(run_and_save(session).exit_code, 0);
  const std::string good_session = read_file(session);
  const Outcome told = run_in_shell(
      limited, {"run", "-m", seedling(), "-p", "Once", "-n", "40", "--ignore-eos", "--save-session", session});
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_EQ(told.err, "bonsai run: " + session + no_room);
  EXPECT_EQ(told.out.rfind("Once", 0), 0u) << "the text was written before";
  EXPECT_EQ(read_file(session), good_session);
  EXPECT_EQ(files_in(folder), (Names{"tale.session", "talk.json"}));
}

// Nor any part of it, under whatever name.
TEST(OutputFile, IsNeverTheModel) {
  const auto file = gguf::File::open(seedling());
  ASSERT_TRUE(file) << file.error().message;
  const std::string folder = make_folder("model");
  const std::vector<std::string> parts = test::split_file(*file, folder + "/model", 3);
  const std::string second = read_file(parts[1]), link = folder + "/link";
  fs::create_symlink(parts[1], link);
  const auto refused = [](const std::string &path, const char *what) {
    return path + ": is the model, expected another file for the " + what + "\n";
  };
  for (const std::string &path : {parts[1], link}) {
    EXPECT_EQ(run_program({"run", "-m", parts[0], "-n", "1", "-p", "a", "--save-session", path}).err,
              "bonsai run: " + refused(path, "session"));
    EXPECT_EQ(run_program({"bench", "-m", parts[0], "-p", "4", "-n", "1", "-r", "1", "--report", path}).err,
              "bonsai bench: " + refused(path, "report"));
    EXPECT_EQ(run_program({"chat", "-m", parts[0], "-n", "1"}, "/save " + path + "\n/save-session " + path + "\n").err,
              "/save: " + refused(path, "conversation") + "/save-session: " + refused(path, "session"));
  }
  EXPECT_TRUE(read_file(parts[1]) == second);
}

// A session may take the place of a session, or of nothing: not of another model, say, which would be lost.
TEST(OutputFile, ASessionReplacesNothingButSessions) {
  const std::string folder = make_folder("spared"), link = folder + "/link", other = folder + "/other.gguf";
  const std::string is_spared = ": holds something else than a session, expected another file, or an empty one\n";
  fs::create_symlink("other.gguf", link);
  fs::copy_file(seedling(), other);
  const std::string few = write_file("few", "BONSAI"), empty = write_file("empty", "");
  for (const std::string &path : {other, link, few}) {
    const std::string before = read_file(path);
    const Outcome run = run_and_save(path), start = chat("hi\n", {"--save-session", path}),
                  talk = chat("/save-session " + path + "\nhi\n");
    EXPECT_EQ(run.err, "bonsai run: " + path + is_spared);
    EXPECT_EQ(start.err, "bonsai chat: " + path + is_spared);
    EXPECT_EQ(run.out + start.out, "") << "it is said before any work";
    EXPECT_EQ(talk.err, "/save-session: " + path + is_spared);
    EXPECT_NE(talk.out, "") << "the conversation goes on";
    for (const Outcome &outcome : {run, start, talk}) EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_TRUE(read_file(path) == before);
  }
  EXPECT_EQ(files_in(folder), (Names{"link", "other.gguf"}));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run_and_save(empty).exit_code, 0) << "empty at first, then a session";
}

TEST(OutputFile, AReportIsWrittenThoughNobodyReadsTheTable) {
  const std::string path = write_file("report.svg", "");
  const Outcome outcome = run_program_into(
      "/dev/full", {"bench", "-m", seedling(), "-p", "8", "-n", "4", "-r", "1", "--stream-bytes", "65536", "--backend",
                    backend_file("template"), "--backend-strict", "--report", path});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(read_file(path).find("<svg "), std::string::npos);
}

}  // namespace
}  // namespace bonsai::cli
