// Models in several files, as llama.cpp's llama-gguf-split makes them (NAME-00001-of-00003.gguf and so on): each is a
// sound file with some of the tensors, and the first has the metadata. Their keys are split.no (from 0), split.count
// and split.tensors.count, of all parts together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/gguf/file.h"

namespace bonsai::gguf {

// What a file says of itself where it is one of several.
struct PartKeys {
  std::optional<uint64_t> index;  // from 0, below `count`; nullopt where it is missing
  uint64_t count;                 // more than 1
  std::optional<uint64_t> tensors;

  std::string describe() const;  // "part 2 of 3"
};

// nullopt for a file that is a whole model. Refuses keys that are no whole numbers, as a part could pass for a model,
// and a number that no part has.
Result<std::optional<PartKeys>> part_keys(const File &file);

// Refuses what a later part says otherwise than the first: either may be meant. Keys that only one of them has say
// nothing about the other, as those of a file by itself do: split.* and general.alignment.
Result<void> check_agreement(const File &first, const File &part);

// The path of part `index`, from 0, beside the first part at `first_path`. The error is for a path that is not named as
// a first part of `count` is.
Result<std::string> path_of_part(const std::string &first_path, uint64_t index, uint64_t count);

// The paths of all parts, as the first one's name says; any other path is a file's alone. No file is looked at.
std::vector<std::string> paths_of_parts(const std::string &path);

}  // namespace bonsai::gguf
