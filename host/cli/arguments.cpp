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

// The first argument without a name that is not taken.
std::string Options::surplus(const std::vector<std::string> &arguments) const {
  po::options_description all;
  all.add(shown_).add(hidden_);
  const std::string key = "nameless";
  const po::parsed_options parsed = po::command_line_parser(arguments)
                                        .options(all)
                                        .positional(po::positional_options_description().add(key.c_str(), -1))
                                        .style(kStyle)
                                        .run();
  int left = most_positional_;
  for (const po::option &option : parsed.options) {
    if (option.string_key == key && left-- == 0) return option.value.front();
  }
  return {};
}

std::optional<Arguments> Arguments::parse(const Options &options, const std::vector<std::string> &arguments,
                                          Terminal &terminal) {
  po::options_description all;
  all.add(options.shown_).add(options.hidden_);
  po::positional_options_description positional;
  if (options.most_positional_ != 0) positional.add(options.positional_.c_str(), options.most_positional_);
  Arguments parsed;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positional).style(kStyle).run(),
              parsed.values_);
  } catch (const po::too_many_positional_options_error &) {
    throw UsageError(fmt::format(
        "{} is an argument too many: {} given by name", bonsai::quoted(options.surplus(arguments)),
        options.most_positional_ == 0 ? "everything, such as the model (-m FILE), is" : "everything but the file is"));
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
  const auto value = parse_number<uint64_t>(*text);
  if (!value || *value < least || *value > most)
    throw UsageError(
        fmt::format("--{}: expected a whole number from {} to {}, found {}", name, least, most, bonsai::quoted(*text)));
  return value;
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
