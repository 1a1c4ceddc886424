// Writes GGUF v3. Metadata and tensor descriptions first, then the tensors' bytes in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/gguf/file.h"

namespace bonsai::gguf {

// Puts the file in its place on finish(), so that a failed or interrupted run leaves what was there, and nothing else
// (AtomicFile). Tensor data is streamed: a model never has to fit in memory.
class Writer {
 public:
  // Errors: AtomicFile::create()'s.
  static Result<Writer> create(const std::string &path);
  Writer(Writer &&) noexcept;
  Writer &operator=(Writer &&) noexcept;
  ~Writer();

  // Before begin_data(). A key that is set twice keeps the last value.
  void set_uint32(std::string_view key, uint32_t value);
  void set_uint64(std::string_view key, uint64_t value);
  void set_int32(std::string_view key, int32_t value);
  void set_float32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, std::span<const std::string> values);
  void set_int32s(std::string_view key, std::span<const int32_t> values);
  void set_float32s(std::string_view key, std::span<const float> values);
  // Copies a value, of whatever type, from another file.
  void set_value(std::string_view key, const Value &value);

  // `shape` in GGUF's order (columns first). columns must be a multiple of the format's block.
  Result<void> add_tensor(std::string_view name, std::span<const uint64_t> shape, quant::Format format);

  // Writes the header; afterwards the tensors' bytes follow in order, in pieces of any size.
  Result<void> begin_data();
  // Between begin_data() and the first write(): what `check` returns of the file as it will be, but with zeros in its
  // tensors; or of what File::parse() says of it. Its name is the path; nothing of it may outlive the call. Other
  // errors are those of writing.
  Result<void> preview(const std::function<Result<void>(Result<std::unique_ptr<File>>)> &check);
  Result<void> write(std::span<const std::byte> bytes);
  // Checks that every tensor got all its bytes, syncs and renames. Errors name the path and the cause (disk full, say).
  Result<void> finish();

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace bonsai::gguf
