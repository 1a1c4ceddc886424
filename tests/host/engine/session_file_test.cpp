// The format of session files: what is written is read, and nothing else is.
#include "host/engine/session_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace bonsai::host {
namespace {

using Bytes = std::vector<std::byte>;

struct Sample {
  Bytes cache;
  SessionFile file;

  Sample() {
    file.origin = {.model = 0x0123456789ABCDEF, .kv_dtype = BONSAI_KV_F16, .layers = 2, .kv_heads = 3, .head_dim = 8};
    file.tokens = {5, 7, 11, 13};
    file.n_cached = 3;
    cache.resize(session_cache_bytes(file.origin, 3));
    for (size_t i = 0; i < cache.size(); ++i) cache[i] = static_cast<std::byte>(i * 37);
    file.cache = cache;
  }
};

Bytes read(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Bytes written(const SessionFile &file) {
  const std::string path = ::testing::TempDir() + "/bonsai-session-file-test-" + std::to_string(getpid());
  EXPECT_TRUE(write_session_file(path, file));
  Bytes bytes = read(path);
  std::filesystem::remove(path);
  return bytes;
}

std::string error_of(const Bytes &bytes) {
  const auto parsed = parse_session_file(bytes);
  return parsed ? "none" : parsed.error().message;
}

template <class T>
Bytes with(Bytes bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

TEST(SessionFile, IsReadAsItWasWritten) {
  const Sample sample;
  const Bytes bytes = written(sample.file);
  EXPECT_EQ(bytes.size(), 48 + 4 * 4 + 2 * 2 * 3 * 8 * 2 * 3 + 8u);
  const auto parsed = parse_session_file(bytes);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->origin, sample.file.origin);
  EXPECT_EQ(parsed->tokens, sample.file.tokens);
  EXPECT_EQ(parsed->n_cached, 3u);
  EXPECT_EQ(Bytes(parsed->cache.begin(), parsed->cache.end()), sample.cache);
  EXPECT_EQ(parsed->note, "");
}

// What was said to a model is nobody else's business, unless its owner has decided otherwise.
TEST(SessionFile, IsPrivateAndKeepsThePermissionsThatItGets) {
  namespace fs = std::filesystem;
  const Sample sample;
  const fs::path path = ::testing::TempDir() + "/bonsai-session-file-mode-" + std::to_string(getpid());
  const auto permissions = [&] { return fs::status(path).permissions(); };
  ASSERT_TRUE(write_session_file(path, sample.file));
  EXPECT_EQ(permissions(), fs::perms(0600));
  fs::permissions(path, fs::perms(0664));
  ASSERT_TRUE(write_session_file(path, sample.file));
  EXPECT_EQ(permissions(), fs::perms(0664));
  fs::remove(path);
}

TEST(SessionFile, MayHaveANote) {
  Sample sample;
  const Bytes without = written(sample.file);
  sample.file.note = "{\"odd\": 1}";
  const Bytes bytes = written(sample.file);
  EXPECT_EQ(bytes.size(), without.size() + 10);
  const auto parsed = parse_session_file(bytes);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->note, sample.file.note);
  EXPECT_EQ(parsed->tokens, sample.file.tokens);
  EXPECT_EQ(Bytes(parsed->cache.begin(), parsed->cache.end()), sample.cache);
}

// Programs from before there were notes read what has none.
TEST(SessionFile, HasVersionTwoOnlyWithANote) {
  Sample sample;
  EXPECT_EQ(written(sample.file)[8], std::byte{1});
  sample.file.note = "x";
  EXPECT_EQ(written(sample.file)[8], std::byte{2});
}

TEST(SessionFile, HoldsTheKvTypesOfTheAbi) {
  const SessionOrigin f32 = {.kv_dtype = BONSAI_KV_F32, .layers = 2, .kv_heads = 3, .head_dim = 64};
  EXPECT_EQ(session_cache_bytes(f32, 5), 5u * 2 * 2 * 3 * 256);
  SessionOrigin q8 = f32;
  q8.kv_dtype = BONSAI_KV_Q8_0;
  EXPECT_EQ(session_cache_bytes(q8, 5), 5u * 2 * 2 * 3 * 68);
}

void refuses_every_truncation_and_every_flipped_bit(const Bytes &bytes) {
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_NE(error_of(Bytes(bytes.begin(), bytes.begin() + n)), "none") << n << " bytes";
  }
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_NE(error_of(flipped), "none") << "bit " << bit;
  }
  Bytes longer = bytes;
  longer.push_back({});
  EXPECT_NE(error_of(longer), "none");
}

TEST(SessionFileRefuses, EveryTruncationAndEveryFlippedBit) {
  Sample sample;
  refuses_every_truncation_and_every_flipped_bit(written(sample.file));
  sample.file.note = "a note";
  refuses_every_truncation_and_every_flipped_bit(written(sample.file));
}

TEST(SessionFileRefuses, ByNameWhatIsWrong) {
  const Bytes bytes = written(Sample().file);
  EXPECT_EQ(error_of({}), "not a session file: 0 bytes, expected at least 56");
  EXPECT_EQ(error_of(with(bytes, 0, 'X')), "not a session file");
  EXPECT_EQ(error_of(with(bytes, 8, uint32_t{3})), "session file of version 3, expected version 1 or 2");
  EXPECT_EQ(error_of(with(bytes, 12, uint32_t{9})),
            "session file with a KV type 9 for a head_dim of 8, which does not exist");
  EXPECT_EQ(error_of(with(bytes, 12, uint32_t{BONSAI_KV_Q8_0})),
            "session file with a KV type 1 for a head_dim of 8, which does not exist");
  EXPECT_EQ(error_of(with(bytes, 24, uint32_t{0})), "session file with a shape of 0, expected 1 to 16384");
  EXPECT_EQ(error_of(with(bytes, 40, uint32_t{5})), "session file with keys of 5 tokens, expected at most its 4");
  EXPECT_EQ(error_of(with(bytes, 44, uint32_t{1})), "session file with a reserved field of 1, expected 0");
  EXPECT_EQ(error_of(with(bytes, 36, uint32_t{0xFFFFFFFF})),
            "session file of 648 bytes does not hold its 4294967295 tokens and the keys and values of 3");
  EXPECT_TRUE(error_of(with(bytes, 100, '!')).starts_with("session file is damaged: checksum "));
}

// Headers of any content, with lengths that could overflow.
TEST(SessionFileRefuses, RandomHeadersWithoutReadingBeyond) {
  const Bytes bytes = written(Sample().file);
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    Bytes changed = bytes;
    for (int j = 0; j < 3; ++j) {
      const size_t field = 12 + random() % 9 * 4;
      const uint32_t value =
          random() % 3 == 0 ? static_cast<uint32_t>(random()) : static_cast<uint32_t>(random() % 16385);
      std::memcpy(changed.data() + field, &value, sizeof value);
    }
    EXPECT_EQ(error_of(changed) == "none", changed == bytes);
  }
}

}  // namespace
}  // namespace bonsai::host
