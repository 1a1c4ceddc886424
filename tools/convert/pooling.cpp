#include "tools/convert/pooling.h"

#include <array>
#include <filesystem>
#include <string_view>

#include "tools/convert/json.h"

namespace bonsai::convert {
namespace {

namespace fs = std::filesystem;

// llama.cpp's numbers.
constexpr uint32_t kMean = 1, kFirst = 2, kLast = 3;

struct KnownMode {
  std::string_view flag;  // a member of its own that is true, in files of most versions
  std::string_view name;  // what `pooling_mode` is, in newer ones
  std::optional<uint32_t> type;
};
constexpr std::array<KnownMode, 6> kModes = {{
    {"pooling_mode_mean_tokens", "mean", kMean},
    {"pooling_mode_cls_token", "cls", kFirst},
    {"pooling_mode_lasttoken", "lasttoken", kLast},
    {"pooling_mode_max_tokens", "max", std::nullopt},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", std::nullopt},
    {"pooling_mode_weightedmean_tokens", "weightedmean", std::nullopt},
}};

// The modes that a pooling's config.json names; several mean embeddings that are put together.
std::vector<KnownMode> modes_of(const Json &config) {
  std::vector<KnownMode> modes;
  const Json *named = member(config, "pooling_mode");
  for (const KnownMode &mode : kModes) {
    const Json *flag = member(config, mode.flag);
    if ((flag != nullptr && *flag == true) || (named != nullptr && *named == mode.name)) modes.push_back(mode);
  }
  return modes;
}

Result<std::optional<uint32_t>> read_mode(const std::string &path, std::vector<std::string> &notices) {
  const auto config = read_object(path);
  if (!config) return tl::unexpected(config.error());
  const std::vector<KnownMode> modes = modes_of(*config);
  const auto type = modes.size() == 1 ? modes.front().type : std::nullopt;
  if (type != kMean && type != kLast) {
    notices.push_back(
        fmt::format("{}: expected the pooling to be the mean or the last token's; embeddings of the "
                    "result are the mean",
                    path));
  }
  return type;
}

// The file name within the directory that a module names. What leads out of the checkpoint is not followed.
Result<std::string> config_path(const std::string &directory, const std::string &modules, const Json &module) {
  const Json *path = member(module, "path");
  const std::string name = path != nullptr && path->is_string() ? path->get<std::string>() : "";
  if (name.empty() || fs::path(name).filename() != name || name == "..") {
    return fail("{}: path of the pooling: expected a directory's name, found {}", modules,
                path != nullptr ? describe(*path) : "nothing");
  }
  return (fs::path(directory) / name / "config.json").string();
}

}  // namespace

Result<std::optional<uint32_t>> read_pooling(const std::string &directory, std::vector<std::string> &notices,
                                             std::vector<std::string> &paths) {
  const std::string path = (fs::path(directory) / "modules.json").string();
  if (!fs::exists(path)) return std::nullopt;
  const auto modules = read_array(path);
  paths.push_back(path);
  if (!modules) return tl::unexpected(modules.error());
  std::optional<uint32_t> type;
  for (const Json &module : *modules) {
    const Json *named = member(module, "type");
    const std::string kind = named != nullptr && named->is_string() ? named->get<std::string>() : "";
    if (kind.ends_with("Pooling")) {
      const auto config = config_path(directory, path, module);
      if (!config) return tl::unexpected(config.error());
      const auto mode = read_mode(*config, notices);
      paths.push_back(*config);
      if (!mode) return mode;
      type = *mode;
    } else if (!kind.ends_with("Transformer") && !kind.ends_with("Normalize")) {
      notices.push_back(fmt::format("{}: {}: not computed; embeddings of the result are what goes into it", path,
                                    named != nullptr ? describe(*named) : "a module without a type"));
    }
  }
  return type;
}

}  // namespace bonsai::convert
