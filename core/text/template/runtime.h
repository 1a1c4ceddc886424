// One rendering: its limits, its first error, and the making of values within these limits.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/template/limits.h"
#include "core/text/template/value.h"

namespace bonsai::jinja {

// What a call passes, evaluated.
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The first error sticks: whatever is evaluated after it is undefined and without effect, and loops end when they see
// failed(). So expressions need not check each of their parts.
class Runtime {
 public:
  // `now`: what strftime_now() shows.
  Runtime(const Limits &limits, std::time_t now) : limits_(limits), now_(now) {}
  virtual ~Runtime();
  Runtime(const Runtime &) = delete;
  Runtime &operator=(const Runtime &) = delete;

  // Calls a macro, a function or a method.
  virtual Value call(const Value &callee, CallArguments arguments) = 0;

  const Limits &limits() const { return limits_; }
  std::time_t now() const { return now_; }
  bool failed() const { return !error_.empty(); }
  const std::string &error() const { return error_; }  // "line 3: ..."
  void at_line(uint32_t line) { line_ = line; }
  uint32_t line() const { return line_; }

  // Records an error at the current line, unless there is one. Returns undefined, for the caller to pass on.
  template <class... Args>
  Value fail(fmt::format_string<Args...> format, Args &&...args) {
    if (!failed()) set_error(fmt::format(format, std::forward<Args>(args)...));
    return {};
  }

  // Takes `steps` from what is left; false, and an error, if that is too little.
  bool spend(uint64_t steps);
  // What looking through so many items, or bytes, costs.
  bool spend_on_items(uint64_t n) { return spend(n / 16); }
  // What it costs to make texts of their own of so many parts of another: each takes some hundred bytes, however short.
  bool spend_on_parts(uint64_t n) { return spend(n * 16); }
  // What it costs to make what is held until the end of the rendering: dear, for the sake of memory.
  bool spend_on_kept() { return spend(100); }
  // What it costs to write a floating-point number with all its digits, and so many behind the point.
  bool spend_on_digits(uint64_t n_decimals) { return spend(400 + n_decimals / 2); }
  // And looking for a part in a text, or for any of its characters: each byte may have to be compared with each.
  bool spend_on_search(uint64_t text_bytes, uint64_t part_bytes) {
    return spend(text_bytes / 16 + part_bytes / 16) && spend(text_bytes / 32 * (part_bytes / 32));
  }
  // Whether two texts are the same, which costs nothing but for long ones of one length.
  bool same(std::string_view a, std::string_view b) {
    return a.size() == b.size() && spend_on_items(a.size()) && a == b;
  }
  // Whether a text may be so long; an error if not.
  bool allows_text(uint64_t bytes);

  Value list(std::vector<Value> items, Sequence::Kind kind = Sequence::Kind::kList);
  Value dict(DictItems items);
  // The value of a name; null: there is none, or an error.
  const Value *find(const NamedValues &values, std::string_view name);
  void set(NamedValues &values, std::string_view name, Value value);
  // With a mapping's items as fields.
  Value make_namespace(const Value &mapping);
  // What every undefined value does where a real one is needed. Returns undefined.
  Value fail_undefined(const Value &value);

 private:
  void set_error(std::string message);
  bool admits(const Extent &extent);

  const Limits &limits_;
  const std::time_t now_;
  uint64_t spent_ = 0;
  uint32_t line_ = 1;
  std::string error_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

// Builds a text within the limits; what goes beyond them is dropped, as there is an error then.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime &runtime) : runtime_(&runtime) {}

  void append(std::string_view bytes, Origin origin) {
    if (room_for(bytes.size())) text_.append(bytes, origin);
  }
  void append(const TracedText &other) { append(other, {0, other.size()}); }
  void append(const TracedText &other, ByteRange range) {
    if (room_for(range.end - range.begin)) text_.append(other, range);
  }

  const TracedText &text() const { return text_; }
  TracedText take() { return std::move(text_); }

 private:
  bool room_for(size_t bytes) {
    return !runtime_->failed() && runtime_->allows_text(text_.size() + bytes) && runtime_->spend(1 + bytes / 16);
  }

  Runtime *runtime_;
  TracedText text_;
};

}  // namespace bonsai::jinja
