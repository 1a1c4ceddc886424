#include "host/cli/line_reader.h"

#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/base/standard_streams.h"
#include "host/cli/terminal_abilities.h"
#include "host/cli/text_input.h"

namespace bonsai::cli {
namespace {

constexpr int kHistoryLines = 1000;

std::optional<std::string> without_line_end(std::string line) {
  if (line.ends_with('\n')) line.pop_back();
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

class PlainReader final : public LineReader {
 public:
  ~PlainReader() override { std::free(line_); }

  std::optional<std::string> read(const std::string &, Place) override {
    const ssize_t n = ::getline(&line_, &capacity_, stdin);
    if (n < 0 && !std::feof(stdin)) cannot_read("stdin");
    if (n < 0) return std::nullopt;
    return without_line_end(std::string(line_, static_cast<size_t>(n)));
  }

  bool was_discarded() const override { return false; }
  void remember(const std::string &) override {}
  bool is_terminal() const override { return false; }

 private:
  char *line_ = nullptr;
  size_t capacity_ = 0;
};

constexpr const char *kPasteBegins = "\\e[200~";
constexpr std::wstring_view kPasteEnds = L"\x1b[201~";

// What poll() waits for beside keys: that the window has changed its size. A signal by itself is lost where it comes in
// front of the poll() or to another thread. There is one at a time.
class WindowChanges {
 public:
  WindowChanges() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    told_ = event_;
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int error = errno;
      constexpr uint64_t kOne = 1;
      [[maybe_unused]] const ssize_t written = ::write(told_, &kOne, sizeof kOne);
      errno = error;
    };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGWINCH, &action, &before_);
  }
  ~WindowChanges() {
    ::sigaction(SIGWINCH, &before_, nullptr);
    ::close(event_);
  }
  WindowChanges(const WindowChanges &) = delete;
  WindowChanges &operator=(const WindowChanges &) = delete;

  int event() const { return event_; }
  // Whether there was one since the last call.
  bool take() {
    uint64_t count = 0;
    return ::read(event_, &count, sizeof count) == sizeof count;
  }

 private:
  static inline volatile sig_atomic_t told_ = -1;
  int event_;
  struct sigaction before_ {};
};

// Terminals send a line's end as the key does, and the kernel may have made it '\n'. No other control characters but
// tabs are text.
std::wstring as_typed_text(std::wstring text) {
  std::replace(text.begin(), text.end(), L'\r', L'\n');
  std::erase_if(text, [](wchar_t c) { return (c < L' ' && c != L'\n' && c != L'\t') || c == 0x7f; });
  return text;
}

// A pasted text may have ended with some.
std::string without_line_ends(std::string line) {
  line.resize(line.find_last_not_of("\r\n") + 1);
  return line;
}

class EditingReader final : public LineReader {
 public:
  EditingReader() : history_(::history_init()), edit_(::el_init("bonsai", stdin, stderr, stderr)) {
    // Characters of several bytes are one to the editor.
    const char *locale = std::setlocale(LC_CTYPE, "");
    if (locale == nullptr || std::strcmp(locale, "C") == 0) std::setlocale(LC_CTYPE, "C.UTF-8");
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, kHistoryLines);
    ::history(history_, &event, H_SETUNIQUE, 1);
    ::el_set(edit_, EL_CLIENTDATA, this);
    ::el_set(edit_, EL_PROMPT, &EditingReader::show_prompt);
    ::el_set(edit_, EL_EDITOR, "emacs");
    ::el_set(edit_, EL_HIST, ::history, history_);
    // While a line is typed, Ctrl-C is a key like others.
    ::el_set(edit_, EL_SETTY, "-d", "-isig", nullptr);
    ::el_set(edit_, EL_ADDFN, "bonsai-interrupt", "clear the line, discard the message, or leave",
             &EditingReader::interrupt);
    ::el_set(edit_, EL_BIND, "^C", "bonsai-interrupt", nullptr);
    ::el_set(edit_, EL_ADDFN, "bonsai-paste", "insert a pasted text, line ends and all", &EditingReader::paste);
    ::el_set(edit_, EL_BIND, kPasteBegins, "bonsai-paste", nullptr);
    // EL_SIGNAL would have the editor handle SIGINT and others, too.
    ::el_wset(edit_, EL_GETCFN, &EditingReader::read_key);
  }
  ~EditingReader() override {
    ::el_end(edit_);
    ::history_end(history_);
  }
  EditingReader(const EditingReader &) = delete;
  EditingReader &operator=(const EditingReader &) = delete;

  std::optional<std::string> read(const std::string &prompt, Place place) override {
    prompt_ = prompt;
    place_ = place;
    was_discarded_ = false;
    if (marks_pastes_) write_to_stderr("\x1b[?2004h");
    ::el_resize(edit_);  // it may have been another size during an answer
    int n = 0;
    const char *line = ::el_gets(edit_, &n);
    if (marks_pastes_) write_to_stderr("\x1b[?2004l");
    if (line == nullptr || n <= 0) {
      std::fputc('\n', stderr);
      return std::nullopt;
    }
    return without_line_ends(std::string(line, static_cast<size_t>(n)));
  }

  bool was_discarded() const override { return was_discarded_; }

  void remember(const std::string &line) override {
    HistEvent event;
    ::history(history_, &event, H_ENTER, line.c_str());
  }

  bool is_terminal() const override { return true; }

 private:
  static EditingReader &of(EditLine *edit) {
    void *self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<EditingReader *>(self);
  }

  static char *show_prompt(EditLine *edit) { return of(edit).prompt_.data(); }

  // As the editor's own does, and waits for the window to change its size, too. Then the line is shown anew.
  static int read_key(EditLine *edit, wchar_t *key) {
    std::mbstate_t state{};
    for (;;) {
      wait_for_key(edit);
      char byte = 0;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n <= 0) return static_cast<int>(n);
      const size_t used = std::mbrtowc(key, &byte, 1, &state);
      if (used <= 1) return 1;
      if (used == static_cast<size_t>(-1)) state = {};  // bytes that are no character are left out
    }
  }

  static void wait_for_key(EditLine *edit) {
    WindowChanges &changes = of(edit).window_changes_;
    pollfd waiting[] = {{STDIN_FILENO, POLLIN, 0}, {changes.event(), POLLIN, 0}};
    do {
      if (changes.take()) resize(edit);
      if (::poll(waiting, std::size(waiting), -1) < 0 && errno != EINTR) return;
    } while (waiting[0].revents == 0);
  }

  static void resize(EditLine *edit) {
    ::el_resize(edit);
    if (obeys_escapes(STDERR_FILENO)) write_to_stderr("\r\x1b[J");
    ::el_set(edit, EL_REFRESH);
  }

  static unsigned char interrupt(EditLine *edit, int) {
    EditingReader &reader = of(edit);
    const LineInfo *line = ::el_line(edit);
    reader.was_discarded_ = reader.place_ == Place::kFurther;
    if (reader.was_discarded_ || line->lastchar == line->buffer) return CC_EOF;
    ::el_cursor(edit, static_cast<int>(line->lastchar - line->cursor));
    ::el_deletestr(edit, static_cast<int>(line->lastchar - line->buffer));
    return CC_REFRESH;
  }

  // What a terminal sends between its marks, up to the second one.
  static unsigned char paste(EditLine *edit, int) {
    std::wstring text;
    while (!text.ends_with(kPasteEnds)) {
      wchar_t key = 0;
      if (::el_wgetc(edit, &key) != 1) return CC_EOF;
      text += key;
    }
    text.resize(text.size() - kPasteEnds.size());
    text = as_typed_text(std::move(text));
    if (text.empty()) return CC_NORM;
    return ::el_winsertstr(edit, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  ::History *history_;
  EditLine *edit_;
  WindowChanges window_changes_;
  // A terminal is asked to mark what is pasted, as xterm does ("bracketed paste", private mode 2004).
  const bool marks_pastes_ = obeys_escapes(STDERR_FILENO);
  std::string prompt_;
  Place place_ = Place::kFirst;
  bool was_discarded_ = false;
};

// As read_message(), but what was discarded is still there.
std::optional<std::string> read_once(LineReader &reader, const std::string &prompt) {
  constexpr std::string_view kQuotes = "\"\"\"";
  const auto read_further = [&reader] { return reader.read("... ", LineReader::Place::kFurther); };
  auto line = reader.read(prompt, LineReader::Place::kFirst);
  if (!line) return std::nullopt;
  reader.remember(*line);
  std::string message = *std::move(line);
  if (!reader.is_terminal()) return message;                    // every line is a message
  if (message.find('\n') != std::string::npos) return message;  // pasted: what looks like our marks is its own
  if (!message.starts_with(kQuotes)) {
    while (message.ends_with('\\')) {
      message.back() = '\n';
      auto next = read_further();
      if (!next) break;
      message += *next;
    }
    return message;
  }
  message.erase(0, kQuotes.size());
  bool at_first = message.empty();  // nothing stands behind the opening quotes: the text begins in the next line
  while (!message.ends_with(kQuotes)) {
    auto next = read_further();
    if (!next) return message;
    if (!std::exchange(at_first, false)) message += '\n';
    message += *next;
  }
  message.resize(message.size() - kQuotes.size());
  if (message.ends_with('\n')) message.pop_back();
  return message;
}

}  // namespace

std::unique_ptr<LineReader> LineReader::open() {
  if (::isatty(STDIN_FILENO) && ::isatty(STDERR_FILENO)) return std::make_unique<EditingReader>();
  return std::make_unique<PlainReader>();
}

std::optional<std::string> read_message(LineReader &reader, const std::string &prompt) {
  for (;;) {
    auto message = read_once(reader, prompt);
    if (!reader.was_discarded()) return message;
  }
}

}  // namespace bonsai::cli
