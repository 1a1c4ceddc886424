// How parsers of answers that come in pieces find tags: whatever the pieces, each byte is looked at a bounded number of
// times.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace bonsai::host {

// Looks for a tag to which the line ends ahead of it belong.
class TagSearch {
 public:
  explicit TagSearch(std::string_view tag) : tag_(tag) {}

  struct Found {
    size_t end;                 // what lies ahead of it is neither the tag's nor can become so
    std::optional<size_t> tag;  // where the tag begins, if it is there as a whole
  };
  // `text`: what the last call had behind its `end`, and more. The search begins anew behind a whole tag.
  Found look(std::string_view text);

 private:
  std::string_view tag_;
  size_t n_line_ends_ = 0;  // at the front of the next text
};

// Looks for the tag that ends JSON, whose own texts may hold it.
class JsonEndSearch {
 public:
  // The JSON begins at `begin` of the text.
  JsonEndSearch(std::string_view tag, size_t begin) : tag_(tag), at_(begin) {}

  // Where the tag begins. `text`: the last call's, and more.
  std::optional<size_t> look(std::string_view text);

 private:
  std::string_view tag_;
  size_t at_;               // what lies ahead of it has been looked at
  bool is_quoted_ = false;  // at at_
};

}  // namespace bonsai::host
