// GGUF v2 and v3, read by mapping (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/mapped_file.h"
#include "core/base/result.h"
#include "core/quant/format.h"

namespace bonsai::gguf {

// Metadata value types, with the file format's numbers.
enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// An array's elements stay in the file until asked for; every element has been checked to lie inside it.
struct Array {
  ValueType element_type;
  uint64_t count;
  std::span<const std::byte> payload;  // the encoded elements (strings: length u64, bytes)

  // Elements of a string array, as views into the mapping. Precondition: element_type is kString.
  std::vector<std::string_view> strings() const;
  // Elements of any integer or bool array, widened. nullopt for other element types or values beyond int64.
  std::optional<std::vector<int64_t>> integers() const;
  // Elements of any numeric array as doubles; nullopt for other element types.
  std::optional<std::vector<double>> numbers() const;
};

// A scalar keeps the type that the file gave it; strings are views into the mapping.
struct Value {
  ValueType type;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, Array> data;

  std::optional<uint64_t> as_uint() const;  // any integer type that holds a value >= 0
  std::optional<int64_t> as_int() const;
  std::optional<double> as_number() const;  // any integer or float type
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;
  const Array *as_array() const;  // nullptr when it is not one
};

// As a message shows it, shortened.
std::string describe(const Value &value);

// One tensor as the file describes it. `shape` is in GGUF's order: shape[0] is the row length (columns), shape[1] the
// rows.
struct Tensor {
  std::string_view name;
  std::vector<uint64_t> shape;      // 1 to 4 extents, each >= 1
  uint32_t gguf_type;               // as in the file
  quant::Format format;             // resolved, id 42 included
  uint64_t offset;                  // from the start of the data section
  std::span<const std::byte> data;  // exactly rows * row_bytes, in the format's layout

  uint64_t columns() const { return shape[0]; }
  uint64_t rows() const;  // product of the other extents
};

// A checked file. Every count, offset, length, alignment, type and overlap has been verified: what is here can be used.
// Views point into the mapping (or, with parse(), into the caller's bytes) and live as long as the File.
//
// A model may be in several files ("parts", core/gguf/parts.h). Then the metadata, version and alignment are the first
// part's, and the tensors those of all, in their order.
//
// The data of scale-last tensors (OxiBonsai's files) is a copy that the File owns, with the scales moved to the front:
// so nobody downstream, the ABI included, meets a layout that one old writer used. The copy costs such a file what
// mapping saves, its size in memory and a pass over it at open; the pages of the original are released behind it.
class File {
 public:
  // Of a model in parts, `path` is the first one's, and the others are read from beside it. Errors are one line
  // beginning with the path: what field, at which byte offset, what was found and what was expected.
  static Result<File> open(const std::string &path);
  // The same over bytes in memory (tests, fuzzing), a whole model only. `name` stands for the path in messages.
  static Result<File> parse(std::span<const std::byte> bytes, std::string name);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  const std::string &path() const { return name_; }
  uint64_t file_bytes() const { return file_bytes_; }  // of all parts together
  uint64_t parts() const { return 1 + other_parts_; }  // files
  std::vector<std::string> paths() const;              // of all parts in their order; none where it came from parse()
  // Things worth telling a person that are no errors: an id 42 that nothing decides, for one. One line each.
  const std::vector<std::string> &warnings() const { return warnings_; }

  // In file order.
  const std::vector<std::pair<std::string_view, Value>> &metadata() const { return metadata_; }
  const std::vector<Tensor> &tensors() const { return tensors_; }

  const Value *find(std::string_view key) const;           // nullptr when absent
  const Tensor *find_tensor(std::string_view name) const;  // nullptr when absent

  // Whether all tensors' data live as long as the File: not where it came from parse().
  bool is_mapped() const { return !mappings_.empty(); }
  // Tells the kernel that a part of a tensor's data is not needed again soon; it stays readable.
  void release(std::span<const std::byte> data) const;

 private:
  friend class Parser;
  File() = default;
  // A single file. `first` is the first part where this is a later one, which has no metadata of its own.
  static Result<File> map(const std::string &path, const File *first);
  static Result<File> read(std::span<const std::byte> bytes, std::string name, const File *first);
  Result<void> add_other_parts();
  Result<File> map_other_part(uint64_t index, uint64_t count) const;
  Result<void> add_part(File &&part);
  Result<void> index_tensors_of_parts(std::optional<uint64_t> expected);
  void put_scales_first();
  void settle_type_42();

  std::vector<MappedFile> mappings_;  // empty when the file came from parse()
  std::string name_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  uint64_t file_bytes_ = 0;
  std::vector<std::string> warnings_;
  std::vector<std::pair<std::string_view, Value>> metadata_;
  std::vector<Tensor> tensors_;
  bool scale_last_ = false;               // in the file's ternary blocks of 128
  std::optional<quant::Format> type_42_;  // what type 42 means; nullopt where nothing decides it, or no tensor has it
  std::vector<std::unique_ptr<std::byte[]>> reordered_;
  uint64_t other_parts_ = 0;
  // Positions in the two lists above, sorted by name.
  std::vector<size_t> by_key_;
  std::vector<size_t> by_tensor_name_;
};

}  // namespace bonsai::gguf
