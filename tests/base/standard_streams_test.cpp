// Promise: a program whose standard streams are closed, full or unread does its work all the same.
#include "core/base/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

namespace bonsai {
namespace {

// What `work` returns in a process of its own, whose streams it may ruin; 128 + the signal where one ends it.
template <class Work>
int in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(StandardStreams, ClosedOnesAreTakenSoThatNoFileGetsTheirNumbers) {
  EXPECT_EQ(in_child([] {
              for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
              prepare_standard_streams();
              return ::open("/dev/null", O_RDONLY) > STDERR_FILENO ? 0 : 1;
            }),
            0);
}

TEST(StandardStreams, UsingAClosedOneStaysAnError) {
  EXPECT_EQ(in_child([] {
              for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) ::close(fd);
              prepare_standard_streams();
              char byte = 'x';
              const bool reads = ::read(STDIN_FILENO, &byte, 1) >= 0 || errno != EBADF;
              const bool writes = ::write(STDOUT_FILENO, &byte, 1) >= 0 || errno != EBADF;
              return (reads ? 1 : 0) + (writes ? 2 : 0);
            }),
            0);
}

TEST(StandardStreams, OpenOnesStayAsTheyAre) {
  EXPECT_EQ(in_child([] {
              std::array<int, 2> ends;
              if (::pipe(ends.data()) != 0) return 1;
              ::dup2(ends[1], STDERR_FILENO);
              prepare_standard_streams();
              print_to_stderr("{} and {:.1f}", "one", 2.0);
              std::array<char, 16> text;
              const ssize_t n = ::read(ends[0], text.data(), text.size());
              return std::string(text.data(), static_cast<size_t>(n)) == "one and 2.0" ? 0 : 2;
            }),
            0);
}

TEST(StandardStreams, WhatCannotBeSaidIsDropped) {
  EXPECT_EQ(in_child([] {
              ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO);
              print_to_stderr("{}\n", "nobody reads this");
              ::close(STDERR_FILENO);
              write_to_stderr("nor that");
              return 0;
            }),
            0);
}

TEST(StandardStreams, APipeWithoutAReaderEndsNothing) {
  EXPECT_EQ(in_child([] {
              prepare_standard_streams();
              std::array<int, 2> ends;
              if (::pipe(ends.data()) != 0) return 1;
              ::dup2(ends[1], STDERR_FILENO);
              ::close(ends[0]);
              write_to_stderr("nobody reads this");
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace bonsai
