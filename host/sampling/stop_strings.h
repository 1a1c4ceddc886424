// Ends a stream of text where one of several strings occurs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bonsai::host {

// Lets text through until a stop string is complete; no part of the one that ends the text comes out. Text that may be
// the beginning of one is held back. What comes out in all does not depend on how the text is cut into pieces: the stop
// string that is complete first counts, and of two that are complete at once the longer.
class StopStrings {
 public:
  // Empty strings are ignored. None at all: everything is let through.
  explicit StopStrings(std::vector<std::string> stops);

  // Takes the next piece and returns what is safe to show: nothing once stopped() is true.
  std::string push(std::string_view text);

  // The text has ended for another reason: returns what was held back.
  std::string flush();

  bool stopped() const { return !found_.empty(); }
  // The one that ended the text; empty: none has.
  const std::string &found() const { return found_; }

 private:
  struct Match {
    size_t begin, end;
  };
  Match first_match() const;
  size_t held_back() const;

  std::vector<std::string> stops_;
  std::string pending_;
  std::string found_;
};

}  // namespace bonsai::host
