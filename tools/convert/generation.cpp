#include "tools/convert/generation.h"

#include <algorithm>
#include <filesystem>
#include <limits>

namespace bonsai::convert {
namespace {

namespace fs = std::filesystem;

// Reads members of a file, and leaves out with a notice what is not as expected.
class LenientReader {
 public:
  LenientReader(const std::string &path, const Json &object, std::vector<std::string> &notices)
      : path_(path), object_(object), notices_(notices) {}

  std::optional<float> number(std::string_view key, float least, float most, std::string_view expected) const {
    const Json *value = member(object_, key);
    if (!value) return std::nullopt;
    const auto number = value->is_number() ? value->get<float>() : std::numeric_limits<float>::quiet_NaN();
    if (number >= least && number <= most) return number;
    leave_out(key, expected, *value);
    return std::nullopt;
  }

  bool is_false(std::string_view key) const {
    const Json *value = member(object_, key);
    if (value && !value->is_boolean()) leave_out(key, "true or false", *value);
    return value && *value == false;
  }

  std::optional<int32_t> whole(std::string_view key, int32_t most, std::string_view expected) const {
    const Json *value = member(object_, key);
    return value ? whole(key, *value, most, expected) : std::nullopt;
  }

  // One token or several.
  void append_ids(std::string_view key, uint32_t vocab, std::vector<int32_t> &ids) const {
    const Json *value = member(object_, key);
    if (!value) return;
    for (const Json &element : value->is_array() ? *value : Json::array({*value})) {
      const auto id = whole(key, element, last_id(vocab), token_below(vocab));
      if (id && std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
    }
  }

  std::optional<int32_t> id(std::string_view key, uint32_t vocab) const {
    return whole(key, last_id(vocab), token_below(vocab));
  }

 private:
  static int32_t last_id(uint32_t vocab) { return static_cast<int32_t>(vocab) - 1; }
  static std::string token_below(uint32_t vocab) { return fmt::format("a token's number below {}", vocab); }

  std::optional<int32_t> whole(std::string_view key, const Json &value, int32_t most, std::string_view expected) const {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(most)) return value.get<int32_t>();
    leave_out(key, expected, value);
    return std::nullopt;
  }

  void leave_out(std::string_view key, std::string_view expected, const Json &found) const {
    notices_.push_back(fmt::format("{}: {}: expected {}, found {}; left out", path_, key, expected, describe(found)));
  }

  const std::string &path_;
  const Json &object_;
  std::vector<std::string> &notices_;
};

void read_sampling(const LenientReader &reader, Generation &generation) {
  constexpr float kLeast = std::numeric_limits<float>::min(), kMost = std::numeric_limits<float>::max();
  generation.temperature = reader.number("temperature", 0, kMost, "a number of at least 0");
  generation.top_k = reader.whole("top_k", std::numeric_limits<int32_t>::max(), "a whole number of at least 0");
  generation.top_p = reader.number("top_p", 0, 1, "a number from 0 to 1");
  generation.min_p = reader.number("min_p", 0, 1, "a number from 0 to 1");
  if (reader.is_false("do_sample")) generation.temperature = 0;  // the likeliest token, whatever the others say
  generation.repetition_penalty = reader.number("repetition_penalty", kLeast, kMost, "a number above 0");
}

}  // namespace

Result<Generation> read_generation(const std::string &directory, uint32_t vocab, std::vector<std::string> &notices,
                                   std::vector<std::string> &paths) {
  Generation generation;
  const std::string path = (fs::path(directory) / "generation_config.json").string();
  if (fs::exists(path)) {
    paths.push_back(path);
    if (const auto document = read_object(path)) {
      const LenientReader reader(path, *document, notices);
      read_sampling(reader, generation);
      reader.append_ids("eos_token_id", vocab, generation.ends);
    } else {  // texts can be generated without it
      notices.push_back(document.error().message + "; ignored");
    }
  }
  const std::string config_path = (fs::path(directory) / "config.json").string();
  const auto config = read_object(config_path);
  if (!config) return tl::unexpected(config.error());
  const LenientReader reader(config_path, *config, notices);
  reader.append_ids("eos_token_id", vocab, generation.ends);
  generation.bos = reader.id("bos_token_id", vocab);
  generation.pad = reader.id("pad_token_id", vocab);
  return generation;
}

void name_special_tokens(const Generation &generation, text::TokenizerData &data) {
  if (!data.bos) data.bos = generation.bos;
  if (!data.pad) data.pad = generation.pad;
  for (const int32_t id : generation.ends) {
    if (!data.eos) data.eos = id;
    if (data.eos != id && std::ranges::find(data.more_eos, id) == data.more_eos.end()) data.more_eos.push_back(id);
  }
}

void write_sampling(const Generation &generation, gguf::Writer &writer) {
  const auto set = [&](std::string_view key, std::optional<float> value) {
    if (value) writer.set_float32(key, *value);
  };
  if (generation.top_k) writer.set_int32("general.sampling.top_k", *generation.top_k);
  set("general.sampling.top_p", generation.top_p);
  set("general.sampling.min_p", generation.min_p);
  set("general.sampling.temp", generation.temperature);
  set("general.sampling.penalty_repeat", generation.repetition_penalty);
}

}  // namespace bonsai::convert
