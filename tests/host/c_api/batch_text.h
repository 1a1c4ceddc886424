// What a batch's callbacks are given, kept for a test.
#pragma once

#include <bonsai/bonsai.h>
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "tests/host/c_api/handles.h"

namespace bonsai::c {

// A text under way: what it says, and its end, which can be waited for.
class Text {
 public:
  int end_at = -1;  // with the piece of that number

  static int32_t receive(void *context, bonsai_piece piece, const char *text, uint64_t n_bytes) {
    Text &self = *static_cast<Text *>(context);
    EXPECT_GT(n_bytes, 0u);
    EXPECT_EQ(text[n_bytes], '\0');
    const std::lock_guard lock(self.mutex_);
    EXPECT_FALSE(self.has_ended_);
    self.said_.at(piece).append(text, n_bytes);
    return ++self.n_pieces_ == self.end_at ? 1 : 0;
  }
  static void done(void *context, const bonsai_generation *generation, const bonsai_failure *failure) {
    Text &self = *static_cast<Text *>(context);
    const std::lock_guard lock(self.mutex_);
    EXPECT_FALSE(self.has_ended_);
    EXPECT_NE(generation == nullptr, failure == nullptr);
    self.has_ended_ = true;
    self.generation_.reset(generation);
    if (failure != nullptr) self.report_ = Report{failure->outcome, failure->message};
    self.end_.notify_all();
  }

  // Null: it failed.
  const GenerationHandle &wait() {
    std::unique_lock lock(mutex_);
    end_.wait(lock, [this] { return has_ended_; });
    return generation_;
  }
  bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return has_ended_;
  }
  // Once it has ended, like the next.
  const std::string &said(bonsai_piece piece = BONSAI_PIECE_TEXT) const { return said_.at(piece); }
  const std::optional<Report> &report() const { return report_; }

 private:
  mutable std::mutex mutex_;
  std::condition_variable end_;
  bool has_ended_ = false;
  std::array<std::string, 3> said_;  // by bonsai_piece
  int n_pieces_ = 0;
  GenerationHandle generation_;
  std::optional<Report> report_;
};

}  // namespace bonsai::c
