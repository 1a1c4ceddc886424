// Loading one shared object: what is accepted, what is refused, and with which words.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

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
        Refusal{"null_table", "does not serve ABI 0.9"},
        Refusal{"other_major", "built for ABI 7.1, this host speaks 0.9"},
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

// Where the last byte lies that the dynamic loader maps.
size_t end_of_segments(const std::string &bytes) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  size_t end = 0;
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type == PT_LOAD) end = std::max<size_t>(end, segment.p_offset + segment.p_filesz);
  }
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

}  // namespace
}  // namespace bonsai::host
