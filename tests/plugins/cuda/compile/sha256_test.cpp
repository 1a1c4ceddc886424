// The hash is SHA-256: the examples of FIPS 180-4 and of NIST's test vectors, and every length around a block's end.
#include "plugins/cuda/compile/sha256.h"

#include <gtest/gtest.h>

namespace bonsai::cuda {
namespace {

std::string digits(std::string_view text) { return hex(sha256(text)); }

TEST(KernelHash, MatchesPublishedExamples) {
  EXPECT_EQ(digits(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digits("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digits("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digits("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
                   "mnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(digits(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Made with coreutils' sha256sum, of that many letters 'a': padding starts a block of its own from 56 on.
TEST(KernelHash, PadsAtTheEndOfABlock) {
  EXPECT_EQ(digits(std::string(55, 'a')), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(digits(std::string(56, 'a')), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(digits(std::string(63, 'a')), "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
  EXPECT_EQ(digits(std::string(64, 'a')), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST(KernelHash, DoesNotDependOnPieces) {
  const std::string text(300, 'x');
  for (size_t piece = 1; piece < 130; ++piece) {
    Sha256 hash;
    for (size_t i = 0; i < text.size(); i += piece) hash.add(std::string_view(text).substr(i, piece));
    EXPECT_EQ(hex(hash.finish()), digits(text)) << piece;
  }
}

TEST(KernelHash, FieldsAreToldApart) {
  Sha256 a, b;
  a.add_field("ab"), a.add_field("c");
  b.add_field("a"), b.add_field("bc");
  EXPECT_NE(hex(a.finish()), hex(b.finish()));
}

}  // namespace
}  // namespace bonsai::cuda
