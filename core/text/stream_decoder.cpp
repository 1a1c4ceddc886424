#include "core/text/tokenizer.h"
#include "core/text/utf8.h"

namespace bonsai::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer &tokenizer, bool show_control)
    : tokenizer_(tokenizer), show_control_(show_control) {}

std::string StreamDecoder::push(int32_t id) {
  using State = Utf8Prefix::State;
  pending_ += tokenizer_.decode({&id, 1}, show_control_);
  std::string whole;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Prefix prefix = first_utf8_sequence(rest);
    if (prefix.state == State::kUnfinished) break;
    whole += prefix.state == State::kWhole ? rest.substr(0, prefix.bytes) : kReplacement;
    rest.remove_prefix(prefix.bytes);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return whole;
}

std::string StreamDecoder::flush() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace bonsai::text
