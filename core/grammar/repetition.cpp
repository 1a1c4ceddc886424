#include "core/grammar/repetition.h"

#include <algorithm>

#include "core/grammar/gbnf.h"

namespace bonsai::grammar {
namespace {

using Bad = BadRepetition::Kind;

class Braces {
 public:
  Braces(std::string_view text, size_t begin, RepetitionStyle style)
      : text_(text), begin_(begin), at_(begin + 1), gbnf_(style == RepetitionStyle::kGbnf) {}

  size_t end() const { return at_; }

  tl::expected<Repetition, BadRepetition> read() {
    Repetition made;
    skip_spaces();
    if (!(gbnf_ && looking_at(','))) {
      const auto least = read_count();
      if (!least) return tl::unexpected(least.error());
      made.least = made.most = *least;
    }
    if (looking_at(',')) {
      ++at_;
      skip_spaces();
      made.most = Expression::kUnbounded;
      if (!looking_at('}')) {
        const auto most = read_count();
        if (!most) return tl::unexpected(most.error());
        made.most = *most;
      }
    }
    if (!looking_at('}')) return bad(Bad::kNotClosed, at_);
    ++at_;
    if (made.most < made.least) return bad(Bad::kDownwards, begin_);
    return made;
  }

 private:
  bool looking_at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void skip_spaces() {
    while (gbnf_ && (looking_at(' ') || looking_at('\t'))) ++at_;
  }
  tl::unexpected<BadRepetition> bad(Bad kind, size_t begin) const {
    return tl::unexpected(BadRepetition{kind, begin, at_});
  }

  // And the spaces behind it.
  tl::expected<uint32_t, BadRepetition> read_count() {
    const size_t begin = at_;
    uint32_t count = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      count = std::min(count * 10 + static_cast<uint32_t>(text_[at_] - '0'), kMostRepetitions + 1);
    if (at_ == begin) return bad(Bad::kNoCount, at_);
    if (count > kMostRepetitions) return bad(Bad::kTooMany, begin);
    skip_spaces();
    return count;
  }

  std::string_view text_;
  size_t begin_, at_;
  bool gbnf_;
};

}  // namespace

tl::expected<std::optional<Repetition>, BadRepetition> read_repetition(std::string_view text, size_t &at,
                                                                       RepetitionStyle style) {
  const char sign = at < text.size() ? text[at] : ' ';
  if (sign == '{') {
    Braces braces(text, at, style);
    const auto made = braces.read();
    at = braces.end();
    if (!made) return tl::unexpected(made.error());
    return *made;
  }
  if (sign != '*' && sign != '+' && sign != '?') return std::nullopt;
  ++at;
  return Repetition{sign == '+' ? 1u : 0u, sign == '?' ? 1u : Expression::kUnbounded};
}

}  // namespace bonsai::grammar
