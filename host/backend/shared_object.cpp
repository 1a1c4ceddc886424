#include "host/backend/shared_object.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

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
template <class T>
T read_at(std::span<const std::byte> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

Result<Elf64_Ehdr> read_header(std::span<const std::byte> file) {
  if (file.size() < sizeof(Elf64_Ehdr)) return fail("truncated: {} bytes are too few for an ELF header", file.size());
  const auto header = read_at<Elf64_Ehdr>(file, 0);
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
  return header;
}

// What the file holds of the memory that the dynamic loader will map it to.
class Image {
 public:
  static Result<Image> read(std::span<const std::byte> file) {
    const auto header = read_header(file);
    if (!header) return tl::unexpected(header.error());
    Image image(file);
    for (uint32_t i = 0; i < header->e_phnum; ++i) {
      const auto segment = read_at<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
      if (segment.p_type == PT_DYNAMIC) image.dynamic_ = segment;
      if (segment.p_type != PT_LOAD) continue;
      if (segment.p_offset > file.size() || segment.p_filesz > file.size() - segment.p_offset) {
        return fail("truncated: segment {} of {} bytes at offset {} ends beyond the file's {} bytes", i,
                    segment.p_filesz, segment.p_offset, file.size());
      }
      image.loaded_.push_back(segment);
    }
    return image;
  }

  // From `address` to the end of its segment; empty where no segment holds it.
  std::span<const std::byte> from(uint64_t address) const {
    for (const Elf64_Phdr &segment : loaded_) {
      if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz) continue;
      return file_.subspan(segment.p_offset, segment.p_filesz).subspan(address - segment.p_vaddr);
    }
    return {};
  }

  // The entries by their tags, of which there has to be an end.
  Result<std::map<int64_t, uint64_t>> dynamic_section() const {
    if (!dynamic_) return fail("damaged: it has no dynamic section");
    const std::span<const std::byte> bytes = from(dynamic_->p_vaddr);
    std::map<int64_t, uint64_t> entries;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= bytes.size(); at += sizeof(Elf64_Dyn)) {
      const auto entry = read_at<Elf64_Dyn>(bytes, at);
      if (entry.d_tag == DT_NULL) return entries;
      entries[entry.d_tag] = entry.d_un.d_val;
    }
    return fail("damaged: its dynamic section has no end");
  }

 private:
  explicit Image(std::span<const std::byte> file) : file_(file) {}

  std::span<const std::byte> file_;
  std::optional<Elf64_Phdr> dynamic_;
  std::vector<Elf64_Phdr> loaded_;
};

// The tables that the dynamic loader trusts: where the dynamic section says that one is, there has to be one.
class Tables {
 public:
  Tables(const Image &image, std::map<int64_t, uint64_t> entries) : image_(image), entries_(std::move(entries)) {}

  Result<void> check() const {
    if (auto whole = check_entries(); !whole) return whole;
    if (auto found = need("string table", DT_STRTAB, entry(DT_STRSZ)); !found) return found;
    constexpr uint64_t kTwoSymbols = 2 * sizeof(Elf64_Sym);  // the first is empty
    if (auto found = need("symbol table", DT_SYMTAB, kTwoSymbols); !found) return found;
    if (auto found = check_hash_table(); !found) return found;
    if (!entries_.contains(DT_RELA)) return {};
    return need("relocation table", DT_RELA, entry(DT_RELASZ));
  }

 private:
  uint64_t entry(int64_t tag) const {
    const auto found = entries_.find(tag);
    return found == entries_.end() ? 0 : found->second;
  }

  // Entries that come with another, as linkers write them one behind the other.
  Result<void> check_entries() const {
    constexpr std::pair<int64_t, int64_t> kPairs[] = {{DT_JMPREL, DT_PLTRELSZ},
                                                      {DT_JMPREL, DT_PLTREL},
                                                      {DT_RELA, DT_RELASZ},
                                                      {DT_RELA, DT_RELAENT},
                                                      {DT_VERNEED, DT_VERSYM}};
    const bool is_relocated = entry(DT_RELA) != 0 || entry(DT_RELR) != 0;
    bool is_whole = is_relocated || !entries_.contains(DT_INIT_ARRAY);
    for (const auto &[one, other] : kPairs)
      is_whole = is_whole && (!entries_.contains(one) || (entry(one) != 0 && entry(other) != 0));
    if (!is_whole) return fail("damaged: its dynamic section is not whole");
    return {};
  }

  // A table of `n` bytes that are not all zeros, as the rest of a file is that was not written to its end.
  Result<void> need(std::string_view what, int64_t tag, uint64_t n) const {
    const std::span<const std::byte> bytes = image_.from(entry(tag));
    if (entry(tag) == 0 || n == 0) return fail("damaged: it has no {}", what);
    if (n > bytes.size()) return fail("damaged: its {} lies outside the file's segments", what);
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (std::all_of(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n), is_zero))
      return fail("damaged: its {} is all zeros", what);
    return {};
  }

  // A symbol is looked for in one of its buckets, by the remainder of a division. https://flapenguin.me/elf-dt-gnu-hash
  Result<void> check_hash_table() const {
    const bool is_gnu = entries_.contains(DT_GNU_HASH);
    const int64_t tag = is_gnu ? DT_GNU_HASH : DT_HASH;
    constexpr std::string_view kWhat = "hash table";
    const uint64_t head = (is_gnu ? 4 : 2) * sizeof(uint32_t);
    if (auto found = need(kWhat, tag, head); !found) return found;
    const std::span<const std::byte> bytes = image_.from(entry(tag));
    const uint64_t n_buckets = read_at<uint32_t>(bytes, 0);
    const uint64_t n_words = is_gnu ? read_at<uint32_t>(bytes, 2 * sizeof(uint32_t)) : 0;
    if (n_buckets == 0 || (is_gnu && !std::has_single_bit(n_words))) return fail("damaged: its {} has no size", kWhat);
    return need(kWhat, tag, head + n_words * sizeof(uint64_t) + n_buckets * sizeof(uint32_t));
  }

  const Image &image_;
  const std::map<int64_t, uint64_t> entries_;
};

Result<void> check_image(std::span<const std::byte> file) {
  const auto image = Image::read(file);
  if (!image) return tl::unexpected(image.error());
  auto entries = image->dynamic_section();
  if (!entries) return tl::unexpected(entries.error());
  return Tables(*image, *std::move(entries)).check();
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
  return check_image(bytes);
}

}  // namespace bonsai::host
