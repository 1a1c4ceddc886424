#include "tools/convert/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>

#include "tools/convert/json.h"

namespace bonsai::convert {
namespace {

namespace fs = std::filesystem;

struct ShardIndex {
  std::map<std::string, std::string> file_of;  // by tensor
  std::set<std::string> files;
};

// {"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors", ...}}
Result<ShardIndex> read_index(const std::string &path) {
  auto document = read_object(path);
  if (!document) return tl::unexpected(document.error());
  const Json *weight_map = member(*document, "weight_map");
  if (!weight_map || !weight_map->is_object()) return fail("{}: weight_map: expected an object", path);
  ShardIndex index;
  for (const auto &[tensor, file] : weight_map->items()) {
    const bool is_plain = file.is_string() && fs::path(file.get<std::string>()).filename() == file.get<std::string>();
    if (!is_plain) {
      return fail("{}: weight_map: {}: expected a file name without a directory, found {}", path, tensor,
                  describe(file));
    }
    index.file_of[tensor] = file.get<std::string>();
    index.files.insert(file.get<std::string>());
  }
  return index;
}

// "model-00001-of-00003.safetensors" is one of 3; nullopt for other names.
std::optional<uint64_t> count_in_name(std::string_view name) {
  constexpr std::string_view kForm = "model-00000-of-00000.safetensors";
  const bool matches = std::ranges::equal(name, kForm, [](char found, char expected) {
    return expected == '0' ? found >= '0' && found <= '9' : found == expected;
  });
  if (!matches) return std::nullopt;
  uint64_t count = 0;
  const char *digits = name.data() + kForm.rfind("00000");
  std::from_chars(digits, digits + 5, count);
  return count;
}

// The shards of a directory without an index, whose names say which there are; nothing where there is none.
Result<std::vector<std::string>> list_shards(const std::string &directory) {
  std::set<uint64_t> counts;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(directory, error)) {
    if (const auto count = count_in_name(entry.path().filename().string())) counts.insert(*count);
  }
  if (counts.size() > 1) {
    return fail("{}: expected the shards of one model, found some of {} and of {}", directory, *counts.begin(),
                *counts.rbegin());
  }
  std::vector<std::string> shards;
  for (uint64_t i = 1; !counts.empty() && i <= *counts.begin(); ++i)
    shards.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i, *counts.begin()));
  return shards;
}

}  // namespace

Result<CheckpointTensors> CheckpointTensors::open(const std::string &directory) {
  const std::string single = (fs::path(directory) / "model.safetensors").string();
  const std::string index_path = (fs::path(directory) / "model.safetensors.index.json").string();
  CheckpointTensors tensors;
  if (fs::exists(single)) {
    if (auto added = tensors.add_file(single); !added) return tl::unexpected(added.error());
    return tensors;
  }
  if (!fs::exists(index_path)) {
    const auto shards = list_shards(directory);
    if (!shards) return tl::unexpected(shards.error());
    if (shards->empty()) {
      return fail(
          "{}: expected model.safetensors, model.safetensors.index.json or model-00001-of-....safetensors, found none",
          directory);
    }
    for (const std::string &file : *shards) {
      auto added = tensors.add_file((fs::path(directory) / file).string());
      if (!added) return tl::unexpected(added.error());
    }
    return tensors;
  }
  auto index = read_index(index_path);
  if (!index) return tl::unexpected(index.error());
  for (const std::string &file : index->files) {
    auto added = tensors.add_file((fs::path(directory) / file).string());
    if (!added) return tl::unexpected(added.error());
  }
  tensors.index_path_ = index_path;
  for (const auto &[tensor, file] : index->file_of) {
    if (auto checked = tensors.check_place(tensor, file); !checked) return tl::unexpected(checked.error());
  }
  return tensors;
}

// Whether the index is right about where a tensor is. An index that is not belongs to other shards.
Result<void> CheckpointTensors::check_place(const std::string &tensor, const std::string &file) const {
  const auto found = entries_.find(tensor);
  if (found == entries_.end()) return fail("{}: {}: not in {}, where the index says it is", index_path_, tensor, file);
  const std::string holder = fs::path(files_[found->second.file].mapping().path()).filename().string();
  if (holder != file)
    return fail("{}: {}: in {}, but the index says that it is in {}", index_path_, tensor, holder, file);
  return {};
}

Result<void> CheckpointTensors::add_file(const std::string &path) {
  auto file = SafetensorsFile::open(path);
  if (!file) return tl::unexpected(file.error());
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    const std::string &name = file->tensors()[i].name;
    if (!entries_.emplace(name, Entry{files_.size(), i}).second) {
      return fail("{}: {}: another shard holds it too", path, name);
    }
  }
  files_.push_back(std::move(*file));
  return {};
}

const SourceTensor *CheckpointTensors::find(const std::string &name) const {
  auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &files_[found->second.file].tensors()[found->second.index];
}

std::vector<std::string_view> CheckpointTensors::names() const {
  std::vector<std::string_view> names;
  for (const auto &[name, entry] : entries_) names.push_back(name);
  return names;
}

std::vector<std::string> CheckpointTensors::paths() const {
  std::vector<std::string> paths;
  if (!index_path_.empty()) paths.push_back(index_path_);
  for (const SafetensorsFile &file : files_) paths.push_back(file.mapping().path());
  return paths;
}

void CheckpointTensors::release(const SourceTensor &tensor, std::span<const std::byte> bytes) const {
  files_[entries_.at(tensor.name).file].mapping().release(bytes);
}

}  // namespace bonsai::convert
