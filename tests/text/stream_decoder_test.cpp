#include <gtest/gtest.h>

#include "core/base/utf8.h"
#include "core/text/nfc.h"
#include "tests/text/random_text.h"
#include "tests/text/tiny_tokenizer.h"

namespace bonsai::text {
namespace {

constexpr const char *kReplacement = "\uFFFD";

class StreamDecoderTest : public testing::Test {
 protected:
  Tokenizer tokenizer_ = std::move(*Tokenizer::create(tiny_tokenizer_data()));
};

TEST_F(StreamDecoderTest, ACharacterComesWithItsLastByte) {
  StreamDecoder stream(tokenizer_);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x99), "");
  EXPECT_EQ(stream.push(0x82), "\U0001F642");
  EXPECT_EQ(stream.push(kSpaceA), " a");
  EXPECT_EQ(stream.flush(), "");
}

TEST_F(StreamDecoderTest, AnUnfinishedCharacterEndsInOneReplacement) {
  StreamDecoder stream(tokenizer_);
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push(0x82), "");
  EXPECT_EQ(stream.flush(), kReplacement);
  EXPECT_EQ(stream.flush(), "") << "once is enough";
  EXPECT_EQ(stream.push('a'), "a") << "and the stream can go on";
}

TEST_F(StreamDecoderTest, MalformedBytesAreReplacedAndTheNextCharacterIsKept) {
  StreamDecoder stream(tokenizer_);
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push('a'), kReplacement + std::string("a"));
  EXPECT_EQ(stream.push(0x80), kReplacement);
  EXPECT_EQ(stream.push(0xFF), kReplacement);
  EXPECT_EQ(stream.push(0xC3), "");
  EXPECT_EQ(stream.push(0xC3), kReplacement);
  EXPECT_EQ(stream.push(0xA9), "\u00E9");
}

TEST_F(StreamDecoderTest, ControlTokensShowOnlyWhenAsked) {
  StreamDecoder hidden(tokenizer_);
  EXPECT_EQ(hidden.push(kImEnd), "");
  EXPECT_EQ(hidden.push(kThink), "<think>");
  StreamDecoder shown(tokenizer_, true);
  EXPECT_EQ(shown.push(kImEnd), "<|im_end|>");
}

TEST_F(StreamDecoderTest, ThePiecesAreWholeCharactersAndTogetherTheText) {
  RandomText random(5);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random.text(10);
    const auto ids = tokenizer_.encode(text, SpecialTokens::kParse);
    ASSERT_TRUE(ids) << ids.error().message;
    StreamDecoder stream(tokenizer_);
    std::string joined;
    for (const int32_t id : *ids) {
      const std::string piece = stream.push(id);
      ASSERT_EQ(find_invalid_utf8(piece), std::string_view::npos) << "text " << i;
      joined += piece;
    }
    ASSERT_EQ(stream.flush(), "");
    ASSERT_EQ(joined, tokenizer_.decode(*ids)) << "text " << i;
  }
}

// What a model may well emit: ids that spell no text at all.
TEST_F(StreamDecoderTest, RandomIdsNeverGiveHalfACharacter) {
  RandomText random(6);
  for (int i = 0; i < 20000; ++i) {
    StreamDecoder stream(tokenizer_, true);
    std::string joined;
    std::vector<int32_t> ids;
    for (int n = 0; n < 12; ++n) {
      // Mostly bytes from 0x80 on, so that sequences begin, break off and go wrong in every way.
      ids.push_back(static_cast<int32_t>(random.below(4) == 0 ? random.below(270) : 0x80 + random.below(0x80)));
      const std::string piece = stream.push(ids.back());
      ASSERT_EQ(find_invalid_utf8(piece), std::string_view::npos);
      joined += piece;
    }
    joined += stream.flush();
    ASSERT_EQ(find_invalid_utf8(joined), std::string_view::npos);
    const std::string bytes = tokenizer_.decode(ids, true);
    const bool well_formed = find_invalid_utf8(bytes) == std::string_view::npos;
    ASSERT_EQ(joined == bytes, well_formed);
    ASSERT_TRUE(well_formed || joined.find(kReplacement) != std::string::npos);
  }
}

}  // namespace
}  // namespace bonsai::text
