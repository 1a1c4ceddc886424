// Splits a file as llama.cpp's llama-gguf-split does: the first part has the metadata, each some of the tensors.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "core/gguf/writer.h"

namespace bonsai::test {

// Writes PREFIX-00001-of-0000N.gguf and so on, in the order of the file's tensors, and returns their paths.
inline std::vector<std::string> split_file(const gguf::File &file, const std::string &prefix, size_t parts) {
  const auto require = [](const auto &result) {
    if (!result) throw std::runtime_error(result.error().message);
  };
  std::vector<std::string> paths;
  const size_t each = (file.tensors().size() + parts - 1) / parts;
  for (size_t part = 0; part < parts; ++part) {
    paths.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part + 1, parts));
    auto writer = gguf::Writer::create(paths.back());
    require(writer);
    if (part == 0) {
      for (const auto &[key, value] : file.metadata()) writer->set_value(key, value);
    }
    writer->set_uint32("split.no", static_cast<uint32_t>(part));
    writer->set_uint32("split.count", static_cast<uint32_t>(parts));
    writer->set_int32("split.tensors.count", static_cast<int32_t>(file.tensors().size()));
    const size_t begin = std::min(part * each, file.tensors().size()),
                 end = std::min(begin + each, file.tensors().size());
    for (size_t i = begin; i < end; ++i) {
      const gguf::Tensor &tensor = file.tensors()[i];
      require(writer->add_tensor(tensor.name, tensor.shape, tensor.format));
    }
    require(writer->begin_data());
    for (size_t i = begin; i < end; ++i) require(writer->write(file.tensors()[i].data));
    require(writer->finish());
  }
  return paths;
}

}  // namespace bonsai::test
