// What crosses the C API: pointers that may be NULL, arrays, texts, and structs of other sizes than the library's.
#pragma once

#include <bonsai/bonsai.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "host/c_api/outcome.h"

namespace bonsai::c_api {

template <class T>
T &required(T *argument, const char *name) {
  if (argument == nullptr) refuse(std::string(name) + ": expected one, found NULL");
  return *argument;
}

template <class T>
std::span<const T> array_of(const T *elements, uint64_t n, const char *name) {
  if (n > PTRDIFF_MAX / sizeof(T)) refuse(std::string(name) + ": more than memory can hold");
  if (n > 0 && elements == nullptr) refuse(std::string(name) + ": expected " + std::to_string(n) + ", found NULL");
  return {elements, n};
}

inline std::string_view text_of(const char *text, uint64_t n_bytes, const char *name) {
  if (n_bytes == BONSAI_TO_NUL) return &required(text, name);
  const std::span<const char> bytes = array_of(text, n_bytes, name);
  return {bytes.data(), bytes.size()};
}

inline std::string text_or_empty(const char *text) { return text == nullptr ? std::string() : text; }

// What both sides know of a caller's struct, the rest as in `defaults`.
template <class T>
T known_part(const T &given, const T &defaults) {
  if (given.struct_size < sizeof given.struct_size)
    refuse("struct_size: expected what the options' _init function sets, found " + std::to_string(given.struct_size));
  T known = defaults;
  std::memcpy(&known, &given, std::min<size_t>(given.struct_size, sizeof known));
  return known;
}

// A field that may come to mean something in a later version.
inline void require_unused(uint32_t reserved) {
  if (reserved != 0) refuse("reserved: expected 0, found " + std::to_string(reserved));
}

// Fills a caller's struct of `struct_size` bytes.
template <class T>
bonsai_outcome fill(T *options, uint64_t struct_size, const T &defaults) {
  if (options == nullptr || struct_size < sizeof options->struct_size ||
      struct_size > std::numeric_limits<uint32_t>::max())
    return BONSAI_BAD_ARGUMENT;
  std::memset(options, 0, struct_size);
  std::memcpy(options, &defaults, std::min<size_t>(struct_size, sizeof defaults));
  options->struct_size = static_cast<uint32_t>(struct_size);
  return BONSAI_SUCCESS;
}

// Of a struct that a caller wants to be filled.
template <class T>
uint32_t size_of(const T *info) {
  const uint32_t size = required(info, "info").struct_size;
  if (size < sizeof size) refuse("info: struct_size is not set");
  return size;
}

// As far as both sides know it; `made` has the caller's struct_size.
template <class T>
void fill_known(T &info, const T &made) {
  std::memset(&info, 0, made.struct_size);
  std::memcpy(&info, &made, std::min<size_t>(made.struct_size, sizeof made));
}

template <class T>
void hand_out(std::span<const T> elements, T *to, uint64_t capacity, uint64_t *n) {
  array_of(to, capacity, "the array to fill");
  required(n, "n") = elements.size();
  std::copy_n(elements.begin(), std::min<uint64_t>(capacity, elements.size()), to);
}

// Before something is computed that would not fit.
inline void check_capacity(uint64_t capacity, uint64_t needed) {
  if (capacity < needed)
    refuse("capacity: expected at least " + std::to_string(needed) + ", found " + std::to_string(capacity));
}

}  // namespace bonsai::c_api
