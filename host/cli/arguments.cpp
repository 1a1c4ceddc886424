#include "host/cli/arguments.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <array>
#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <charconv>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/base/utf8.h"

namespace bonsai::cli {
namespace {

namespace po = boost::program_options;

constexpr unsigned kLineLength = 110;

struct LevelName {
  std::string_view name;
  spdlog::level::level_enum level;
};
constexpr std::array kLevels = {
    LevelName{"error", spdlog::level::err}, LevelName{"warning", spdlog::level::warn},
    LevelName{"info", spdlog::level::info}, LevelName{"debug", spdlog::level::debug},
    LevelName{"off", spdlog::level::off},
};

spdlog::level::level_enum find_level(std::string_view name) {
  for (const LevelName &level : kLevels)
    if (level.name == name) return level.level;
  throw UsageError(
      fmt::format("--log-level: expected error, warning, info, debug or off, found {}", bonsai::quoted(name)));
}

// Abbreviated names are not guessed: what works today would turn ambiguous with tomorrow's option.
constexpr int kStyle = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;

// Behind a refused text, where it spells a number that is too large or too near to 0 to be told from it.
std::string_view out_of_range(std::string_view text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc::result_out_of_range && end == text.data() + text.size();
  return is_number ? ", which is out of the range of 32-bit numbers" : "";
}

// `besides`: what else would be taken.
uint64_t read_count(const std::string &name, const std::string &text, uint64_t least, uint64_t most,
                    std::string_view besides = "") {
  const auto value = parse_number<uint64_t>(text);
  if (!value || *value < least || *value > most)
    throw UsageError(fmt::format("--{}: expected a whole number from {} to {}{}, found {}", name, least, most, besides,
                                 bonsai::quoted(text)));
  return *value;
}

// The word of a short option whose value stands in the same word: "-n5". nullptr for every other.
const std::string *stuck_word(const po::option &option) {
  const bool is_stuck = option.position_key < 0 && option.original_tokens.size() == 1 && !option.value.empty() &&
                        !option.original_tokens.front().starts_with("--");
  return is_stuck ? &option.original_tokens.front() : nullptr;
}

// Whether the word is another program's option, read as one of ours with a value: "-ngl" as -n with "gl".
bool is_foreign(const po::option &option, const po::options_description &all) {
  if (stuck_word(option) == nullptr) return false;
  const po::option_description *description = all.find_nothrow(option.string_key, false);
  const bool takes_number = description != nullptr && description->semantic()->name() == "N";
  return takes_number && option.value.front().find_first_of("+-0123456789") != 0;
}

// Refuses words that would be read as what nobody means: another program's option, an argument too many. -1: any number
// may be given without a name.
void check_words(const po::parsed_options &words, const po::options_description &all, int most_positional) {
  int left = most_positional;
  const po::option *before = nullptr;
  for (const po::option &option : words.options) {
    if (is_foreign(option, all))
      throw UsageError(fmt::format("unrecognised option {}", bonsai::quoted(*stuck_word(option))));
    if (option.position_key >= 0 && left-- == 0) {
      const std::string *stuck = before != nullptr ? stuck_word(*before) : nullptr;
      const std::string reading = stuck == nullptr
                                      ? ""
                                      : fmt::format("{} was read as {} with {}, and ", bonsai::quoted(*stuck),
                                                    stuck->substr(0, 2), bonsai::quoted(before->value[0]));
      throw UsageError(fmt::format(
          "{} is an argument too many: {}{} given by name", bonsai::quoted(option.value.front()), reading,
          most_positional == 0 ? "everything, such as the model (-m FILE), is" : "everything but the file is"));
    }
    before = &option;
  }
}

}  // namespace

Options::Options(std::string name, std::string usage, std::string text)
    : name_(std::move(name)),
      usage_(std::move(usage)),
      text_(std::move(text)),
      shown_("Options", kLineLength, kLineLength / 2) {
  flag("help,h", "show this text");
  flag("json", "print the result as one line of JSON");
  flag("verbose,v", "show how the backend was chosen and other information, as --log-level info");
  value("log-level", "LEVEL", "error, warning (default), info, debug or off");
}

Options &Options::value(const char *names, const char *value, const char *help) {
  shown_.add_options()(names, po::value<std::string>()->value_name(value), help);
  return *this;
}

Options &Options::values(const char *names, const char *value, const char *help) {
  shown_.add_options()(names, po::value<std::vector<std::string>>()->value_name(value)->composing(), help);
  return *this;
}

Options &Options::flag(const char *names, const char *help) {
  shown_.add_options()(names, po::bool_switch(), help);
  return *this;
}

Options &Options::positional(const char *name, int most) {
  positional_ = name;
  most_positional_ = most;
  hidden_.add_options()(name, po::value<std::vector<std::string>>());
  return *this;
}

std::string Options::help() const {
  std::ostringstream text;
  text << "Usage: bonsai " << name_ << ' ' << usage_ << "\n\n" << text_ << "\n\n" << shown_;
  return text.str();
}

std::optional<Arguments> Arguments::parse(const Options &options, const std::vector<std::string> &arguments,
                                          Terminal &terminal) {
  po::options_description all;
  all.add(options.shown_).add(options.hidden_);
  const std::string nameless = options.most_positional_ != 0 ? options.positional_ : "nameless";
  const auto positional = po::positional_options_description().add(nameless.c_str(), -1);
  Arguments parsed;
  try {
    const po::parsed_options words =
        po::command_line_parser(arguments).options(all).positional(positional).style(kStyle).run();
    check_words(words, all, options.most_positional_);
    po::store(words, parsed.values_);
  } catch (const po::error &error) {
    throw UsageError(error.what());
  }
  if (parsed.flag("help")) {
    terminal.out.write(options.help());
    return std::nullopt;
  }
  if (parsed.flag("verbose")) terminal.log.set_level(spdlog::level::info);
  if (const auto level = parsed.text("log-level")) terminal.log.set_level(find_level(*level));
  return parsed;
}

bool Arguments::flag(const std::string &name) const { return values_.count(name) > 0 && values_[name].as<bool>(); }

std::optional<std::string> Arguments::text(const std::string &name) const {
  if (values_.count(name) == 0) return std::nullopt;
  return values_[name].as<std::string>();
}

std::vector<std::string> Arguments::texts(const std::string &name) const {
  if (values_.count(name) == 0) return {};
  return values_[name].as<std::vector<std::string>>();
}

std::optional<uint64_t> Arguments::count(const std::string &name, uint64_t least, uint64_t most) const {
  const auto text = this->text(name);
  if (!text) return std::nullopt;
  return read_count(name, *text, least, most);
}

std::optional<uint64_t> Arguments::count_or_all(const std::string &name, uint64_t least, uint64_t all,
                                                uint64_t most) const {
  const auto text = this->text(name);
  if (!text) return std::nullopt;
  return *text == "-1" ? all : read_count(name, *text, least, most, ", or -1");
}

std::optional<int64_t> Arguments::integer(const std::string &name, int64_t least, int64_t most) const {
  const auto text = this->text(name);
  if (!text) return std::nullopt;
  const auto value = parse_number<int64_t>(*text);
  if (!value || *value < least || *value > most)
    throw UsageError(
        fmt::format("--{}: expected a whole number from {} to {}, found {}", name, least, most, bonsai::quoted(*text)));
  return value;
}

std::optional<float> Arguments::number(const std::string &name, float least, float most,
                                       std::string_view expected) const {
  const auto text = this->text(name);
  if (!text) return std::nullopt;
  const auto value = parse_number<float>(*text);
  if (!value || !(*value >= least && *value <= most))
    throw UsageError(
        fmt::format("--{}: expected {}, found {}{}", name, expected, bonsai::quoted(*text), out_of_range(*text)));
  return value;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}
template std::optional<int32_t> parse_number(std::string_view text);
template std::optional<int64_t> parse_number(std::string_view text);
template std::optional<uint64_t> parse_number(std::string_view text);
template std::optional<float> parse_number(std::string_view text);

}  // namespace bonsai::cli
