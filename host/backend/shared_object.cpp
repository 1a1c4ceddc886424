#include "host/backend/shared_object.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <system_error>

#include "core/base/mapped_file.h"

namespace bonsai::host {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kOwnMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kOwnMachine = EM_AARCH64;
#else
constexpr uint16_t kOwnMachine = EM_NONE;  // any is tried
#endif

std::string machine_name(uint16_t machine) {
  if (machine == EM_X86_64) return "x86-64";
  if (machine == EM_AARCH64) return "AArch64";
  return fmt::format("ELF machine {}", machine);
}

// The field layout is the 64-bit one on every machine that this project runs on.
Result<void> check_segments(std::span<const std::byte> file) {
  Elf64_Ehdr header;
  if (file.size() < sizeof header) return fail("truncated: {} bytes are too few for an ELF header", file.size());
  std::memcpy(&header, file.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return fail("not a 64-bit little-endian ELF file");
  }
  if (header.e_type != ET_DYN) return fail("an ELF file, but not a shared object");
  if (kOwnMachine != EM_NONE && header.e_machine != kOwnMachine) {
    return fail("built for {}, expected {}", machine_name(header.e_machine), machine_name(kOwnMachine));
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr)) {
    return fail("not a shared object: program headers of {} bytes, expected {}", header.e_phentsize,
                sizeof(Elf64_Phdr));
  }
  const uint64_t table_bytes = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (header.e_phoff > file.size() || table_bytes > file.size() - header.e_phoff) {
    return fail("truncated: the program headers end beyond the file's {} bytes", file.size());
  }
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, file.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset > file.size() || segment.p_filesz > file.size() - segment.p_offset) {
      return fail("truncated: segment {} of {} bytes at offset {} ends beyond the file's {} bytes", i, segment.p_filesz,
                  segment.p_offset, file.size());
    }
  }
  return {};
}

}  // namespace

Result<void> check_shared_object(const std::filesystem::path &path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return fail("no such file");
  if (error) return fail("cannot be read: {}", error.message());
  if (status.type() == std::filesystem::file_type::directory) return fail("a directory, not a shared object");
  if (status.type() != std::filesystem::file_type::regular) return fail("not a regular file");

  const auto file = MappedFile::open(path.string());
  if (!file) return tl::unexpected(file.error());
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.empty()) return fail("an empty file, not a shared object");
  if (bytes.size() < SELFMAG || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) {
    return fail("not a shared object: the file does not begin with ELF's magic number");
  }
  return check_segments(bytes);
}

}  // namespace bonsai::host
