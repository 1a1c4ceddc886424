// Promises: a tokenizer.json is refused with one line or makes a tokenizer that works; any text is refused as invalid
// UTF-8 or comes back normalised; a stream of any ids gives whole characters.
#include <string>
#include <string_view>

#include "core/base/utf8.h"
#include "core/text/nfc.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/text/random_text.h"
#include "tests/text/tiny_json.h"

namespace {

using bonsai::find_invalid_utf8;
using bonsai::Result;
using bonsai::text::SpecialTokens;
using bonsai::text::StreamDecoder;
using bonsai::text::Tokenizer;

// An input's first byte says what the others are.
enum class Kind : uint8_t { kTokenizerJson, kText, kIds };
constexpr uint8_t kKinds = 3;

const Tokenizer &tiny_tokenizer() {
  static const Tokenizer tokenizer = std::move(*Tokenizer::create(bonsai::text::tiny_tokenizer_data()));
  return tokenizer;
}

void try_text(const Tokenizer &tokenizer, std::string_view text) {
  for (const auto special : {SpecialTokens::kParse, SpecialTokens::kPlain}) {
    const auto ids = tokenizer.encode(text, special);
    require(ids.has_value() == (find_invalid_utf8(text) == std::string_view::npos));
    if (refused_in_one_line(ids)) continue;
    require(tokenizer.decode(*ids, true) == bonsai::text::normalize_nfc(text));
  }
}

void try_tokenizer_json(std::string_view json) {
  std::vector<std::string> warnings;
  auto data = bonsai::text::read_tokenizer_json(json, json, warnings);
  if (refused_in_one_line(data)) return;
  const auto tokenizer = Tokenizer::create(std::move(*data));
  if (refused_in_one_line(tokenizer)) return;
  const auto ids = tokenizer->encode("abc <think>e\u0301 <|im_end|>", SpecialTokens::kParse);
  require(ids.has_value());
  for (const int32_t id : *ids) require(!tokenizer->spelling(id).empty());
}

void try_ids(std::string_view bytes) {
  StreamDecoder stream(tiny_tokenizer(), true);
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    // Two bytes an id, so that some lie outside the vocabulary.
    const auto id = static_cast<int16_t>(static_cast<uint8_t>(bytes[i]) | (static_cast<uint8_t>(bytes[i + 1]) << 8));
    require(find_invalid_utf8(stream.push(id)) == std::string_view::npos);
  }
  require(find_invalid_utf8(stream.flush()) == std::string_view::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char *>(data + 1), size - 1);
  switch (static_cast<Kind>(data[0] % kKinds)) {
    case Kind::kTokenizerJson:
      try_tokenizer_json(rest);
      break;
    case Kind::kText:
      try_text(tiny_tokenizer(), rest);
      break;
    case Kind::kIds:
      try_ids(rest);
      break;
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  auto json = bonsai::text::tiny_json();
  const std::string without_config = json.dump();
  json["eos_token"] = "<|im_end|>";
  json["bos_token"] = {{"content", "<|endoftext|>"}};
  json["add_bos_token"] = true;
  json["chat_template"] = {{{"name", "default"}, {"template", "{{ x }}"}}};
  bonsai::text::RandomText random(1);
  return {make_seed(Kind::kTokenizerJson, without_config),
          make_seed(Kind::kTokenizerJson, json.dump()),
          make_seed(Kind::kText, random.text(20)),
          make_seed(Kind::kText, random.text(200)),
          make_seed(Kind::kText, "<|im_start|>abc<think>ing abc aaaaa<|im_end|>"),
          make_seed(Kind::kIds, random.text(50))};
}
