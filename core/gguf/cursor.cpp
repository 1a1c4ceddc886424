#include "core/gguf/cursor.h"

#include "core/base/utf8.h"
#include "core/gguf/layout.h"

namespace bonsai::gguf {

std::string Field::text() const {
  std::string out(what);
  if (index != kNoIndex) out += fmt::format(" {}", index);
  if (!of.empty()) out += fmt::format(" of {}", quoted(of));
  return out;
}

Result<std::string_view> Cursor::read_string(const Field &field) {
  const uint64_t start = at_;
  const auto length = read<uint64_t>(field);
  if (!length) return tl::unexpected(length.error());
  if (*length > remaining()) {
    return fail_at(start, field, "a string of {} bytes, expected at most the {} that remain", *length, remaining());
  }
  const std::span<const std::byte> bytes = take(*length);
  return std::string_view(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

Result<std::string_view> Cursor::read_name(const Field &field) {
  const uint64_t start = at_;
  const auto name = read_string(field);
  if (!name) return name;
  if (name->size() > kMostNameBytes) {
    return fail_at(start, field, "a name of {} bytes, expected at most {}", name->size(), kMostNameBytes);
  }
  if (const size_t invalid = find_invalid_utf8(*name); invalid != std::string_view::npos) {
    return fail_at(start, field, "{} is not UTF-8 from its byte {} on", quoted(*name), invalid);
  }
  return name;
}

std::span<const std::byte> Cursor::take(uint64_t n) {
  const auto bytes = bytes_.subspan(at_, n);
  at_ += n;
  return bytes;
}

tl::unexpected<Error> Cursor::truncated(const Field &field, uint64_t needed) const {
  return fail_at(at_, field, "expected {} bytes, {} remain", needed, remaining());
}

}  // namespace bonsai::gguf
