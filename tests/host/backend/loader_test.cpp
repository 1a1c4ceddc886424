// Loading one shared object: what is accepted, what is refused, and with which words.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "host/backend/registry.h"
#include "tests/host/backend/fake_directory.h"

namespace bonsai::host {
namespace {

using test::FakeDirectory;

std::string read(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string reason(const std::filesystem::path &path) {
  const auto backend = Backend::load(path);
  return backend ? "loaded" : backend.error().message;
}

// Whatever its compiler's options have put into it, the thread that loads it computes as before.
TEST(Loader, LeavesTheFloatingPointEnvironmentAsItWas) {
  volatile float tiny = std::numeric_limits<float>::denorm_min() * 8;
  ASSERT_GT(tiny * 0.5f, 0.0f);
  ASSERT_EQ(reason(FakeDirectory::built("fast_math")), "loaded");
  EXPECT_GT(tiny * 0.5f, 0.0f);
}

TEST(Loader, KeepsWhatTheTableSays) {
  const auto backend = Backend::load(FakeDirectory::built("high"));
  ASSERT_TRUE(backend) << backend.error().message;
  EXPECT_EQ((*backend)->name(), "high");
  EXPECT_EQ((*backend)->version(), "1.2.3");
  EXPECT_EQ((*backend)->description(), "a fake");
  EXPECT_EQ((*backend)->priority(), 50);
  EXPECT_EQ((*backend)->path(), FakeDirectory::built("high"));
}

TEST(Loader, LevelIsWhatTheTableOffers) {
  EXPECT_EQ((*Backend::load(FakeDirectory::built("good")))->level(), 0);
  EXPECT_EQ((*Backend::load(FakeDirectory::built("sessions")))->level(), 1);
  EXPECT_EQ((*Backend::load(FakeDirectory::built("complete")))->level(), 2);
}

// What lies behind a shorter table is not part of it, whatever the memory there holds.
TEST(Loader, AnOlderMinorsShorterTableLacksWhatItDoesNotCover) {
  const auto backend = Backend::load(FakeDirectory::built("older"));
  ASSERT_TRUE(backend) << backend.error().message;
  EXPECT_EQ((*backend)->level(), 0);
  EXPECT_NE((*backend)->api().gemv, nullptr);
  EXPECT_EQ((*backend)->api().session_memory, nullptr);
  EXPECT_EQ((*backend)->api().forward_wait, nullptr);
}

// A backend from before `profile` was appended, all of version 0.9 as it was.
TEST(Loader, ATableFromBeforeProfileIsWholeWithoutIt) {
  const auto backend = Backend::load(FakeDirectory::built("without_profile"));
  ASSERT_TRUE(backend) << backend.error().message;
  EXPECT_EQ((*backend)->level(), 2);
  EXPECT_EQ((*backend)->api().profile, nullptr);
}

TEST(Loader, AFieldThatTheSizeCutsIsNotRead) {
  const auto backend = Backend::load(FakeDirectory::built("odd_size"));
  ASSERT_TRUE(backend) << backend.error().message;
  EXPECT_EQ((*backend)->api().session_memory, nullptr);
}

TEST(Loader, ANewerMinorsLongerTableIsReadAsFarAsItIsKnown) {
  const auto backend = Backend::load(FakeDirectory::built("newer"));
  ASSERT_TRUE(backend) << backend.error().message;
  EXPECT_EQ((*backend)->api().abi_minor, 42u);
  EXPECT_GT((*backend)->api().struct_size, sizeof(bonsai_backend_api));
}

// A backend may have started threads: its code must not go away under them.
TEST(Loader, ABackendStaysLoaded) {
  FakeDirectory directory;
  const std::filesystem::path path = directory.add("good");
  ASSERT_TRUE(Backend::load(path));
  EXPECT_NE(read("/proc/self/maps").find(path.string()), std::string::npos);
}

struct Refusal {
  std::string fake, reason;
};

class LoaderRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(LoaderRefuses, WithTheReason) { EXPECT_EQ(reason(FakeDirectory::built(GetParam().fake)), GetParam().reason); }

INSTANTIATE_TEST_SUITE_P(
    Fakes, LoaderRefuses,
    testing::Values(
        Refusal{"no_entry", "no symbol bonsai_backend_entry: not a Bonsai backend"},
        Refusal{"null_table", "does not serve ABI 0.10"},
        Refusal{"other_major", "built for ABI 7.1, this host speaks 0.10"},
        Refusal{"too_short", "its table has 96 bytes, level 0 needs 104"},
        Refusal{"undefined_symbol", "undefined symbol: a_symbol_that_nobody_has"},
        Refusal{"entry_is_data", "bonsai_backend_entry is data, expected a function"},
        Refusal{"no_gemv", "required functions are NULL: gemv"},
        Refusal{"half_level_1",
                "offers half of level 1: has session_memory, session_create, lacks session_destroy, layer_encode, "
                "lm_head"},
        Refusal{"half_level_2", "offers half of level 2: has forward_submit, lacks forward_wait"},
        Refusal{"level_2_alone", "offers level 2 without level 1, whose session functions it needs"},
        Refusal{"bad_name", "illegal name '../evil name': expected 1 to 64 letters, digits, '-' and '_'"},
        Refusal{"empty_name", "illegal name '': expected 1 to 64 letters, digits, '-' and '_'"},
        Refusal{"null_name", "illegal name '': expected 1 to 64 letters, digits, '-' and '_'"}),
    [](const auto &info) { return info.param.fake; });

TEST(LoaderRefusesFiles, ThatAreNoSharedObjects) {
  FakeDirectory directory;
  EXPECT_EQ(reason(directory.path() / "libbonsai_none.so"), "no such file");
  EXPECT_EQ(reason(directory.path()), "a directory, not a shared object");
  EXPECT_EQ(reason("/dev/null"), "not a regular file");
  EXPECT_EQ(reason(directory.write("empty.so", "")), "an empty file, not a shared object");
  EXPECT_EQ(reason(directory.write("text.so", "I am a poem\n")),
            "not a shared object: the file does not begin with ELF's magic number");
  EXPECT_EQ(reason(directory.write("short.so",
                                   "\x7F"
                                   "ELF")),
            "truncated: 4 bytes are too few for an ELF header");
}

TEST(LoaderRefusesFiles, OfAnotherKindOfElf) {
  FakeDirectory directory;
  std::string bytes = read(FakeDirectory::built("good"));
  bytes[4] = 1;  // ELFCLASS32
  EXPECT_EQ(reason(directory.write("class32.so", bytes)), "not a 64-bit little-endian ELF file");
  bytes[4] = 2;
  bytes[16] = 1;  // ET_REL, an object file
  EXPECT_EQ(reason(directory.write("object.so", bytes)), "an ELF file, but not a shared object");
  bytes[16] = ET_DYN;
  const bool is_here_x86 = bytes[18] == EM_X86_64;
  bytes[18] = static_cast<char>(is_here_x86 ? EM_AARCH64 : EM_X86_64);
  EXPECT_EQ(reason(directory.write("elsewhere.so", bytes)),
            is_here_x86 ? "built for AArch64, expected x86-64" : "built for x86-64, expected AArch64");
  bytes[18] = EM_S390;
  EXPECT_TRUE(reason(directory.write("mainframe.so", bytes)).starts_with("built for ELF machine 22, expected "));
}

std::vector<Elf64_Phdr> segments(const std::string &bytes, uint32_t type) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::vector<Elf64_Phdr> found;
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type == type) found.push_back(segment);
  }
  return found;
}

// Where the last byte lies that the dynamic loader maps.
size_t end_of_segments(const std::string &bytes) {
  size_t end = 0;
  for (const Elf64_Phdr &segment : segments(bytes, PT_LOAD))
    end = std::max<size_t>(end, segment.p_offset + segment.p_filesz);
  return end;
}

// The dynamic loader maps what the headers claim and dies of SIGBUS where the file ends: whatever the length at which
// a copy was cut, the answer is an error or, when only what is never mapped is missing, a working backend.
TEST(LoaderRefusesFiles, ThatWereCutAnywhere) {
  const std::string bytes = read(FakeDirectory::built("good"));
  const size_t end = end_of_segments(bytes);
  FakeDirectory directory;
  for (size_t length = 0; length < bytes.size(); length += bytes.size() / 97) {
    const auto path = directory.write("cut-" + std::to_string(length) + ".so", bytes.substr(0, length));
    EXPECT_EQ(reason(path) == "loaded", length >= end) << length;
  }
  const std::string found = reason(directory.write("one-byte.so", bytes.substr(0, end - 1)));
  EXPECT_TRUE(found.starts_with("truncated: segment ")) << found;
  EXPECT_TRUE(found.ends_with("ends beyond the file's " + std::to_string(end - 1) + " bytes")) << found;
}

// So is a copy that has its length and was not written to its end. Behind the dynamic section there is nothing but
// data; of the section itself the end may be missed.
TEST(LoaderRefusesFiles, ThatGoOnInZeros) {
  const std::string bytes = read(FakeDirectory::built("good"));
  const Elf64_Phdr dynamic = segments(bytes, PT_DYNAMIC).at(0);
  const size_t end = dynamic.p_offset + dynamic.p_filesz;
  FakeDirectory directory;
  const auto zeroed = [&](size_t from) {
    return reason(directory.write("zero-" + std::to_string(from) + ".so",
                                  bytes.substr(0, from) + std::string(bytes.size() - from, '\0')));
  };
  for (size_t from = 0; from < dynamic.p_offset; from += bytes.size() / 97) EXPECT_NE(zeroed(from), "loaded") << from;
  for (size_t from = dynamic.p_offset; from < end; from += sizeof(uint64_t)) zeroed(from);
  EXPECT_EQ(zeroed(dynamic.p_offset), "damaged: it has no string table");
  EXPECT_EQ(zeroed(end), "loaded");
}

struct Table {
  std::string name;
  int64_t address, size;  // tags of the dynamic section
};

class LoaderRefusesTables : public testing::TestWithParam<Table> {};

// A hole in the file; the tables lie in the first pages, which are in memory what they are in the file.
TEST_P(LoaderRefusesTables, ThatAreZerosOrElsewhere) {
  const std::string bytes = read(FakeDirectory::built("good"));
  const Elf64_Phdr dynamic = segments(bytes, PT_DYNAMIC).at(0);
  std::map<int64_t, Elf64_Dyn> entries;
  std::map<int64_t, size_t> offsets;
  for (size_t at = dynamic.p_offset; at < dynamic.p_offset + dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    entries[entry.d_tag] = entry;
    offsets[entry.d_tag] = at;
  }
  const auto &[name, address, size] = GetParam();
  ASSERT_TRUE(entries.contains(address) && entries.contains(size));
  FakeDirectory directory;
  std::string changed = bytes;
  std::fill_n(changed.begin() + static_cast<ptrdiff_t>(entries[address].d_un.d_ptr), entries[size].d_un.d_val, '\0');
  EXPECT_EQ(reason(directory.write("zeros.so", changed)), "damaged: its " + name + " is all zeros");
  changed = bytes;
  entries[address].d_un.d_ptr = 0x7fff'ffff'ffff;
  std::memcpy(changed.data() + offsets[address], &entries[address], sizeof(Elf64_Dyn));
  EXPECT_EQ(reason(directory.write("elsewhere.so", changed)),
            "damaged: its " + name + " lies outside the file's segments");
}

INSTANTIATE_TEST_SUITE_P(Tables, LoaderRefusesTables,
                         testing::Values(Table{"string table", DT_STRTAB, DT_STRSZ},
                                         Table{"relocation table", DT_RELA, DT_RELASZ}),
                         [](const auto &info) { return info.param.name.substr(0, info.param.name.find(' ')); });

}  // namespace
}  // namespace bonsai::host
