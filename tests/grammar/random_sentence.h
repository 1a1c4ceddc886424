// Sentences spelled by tokens that are picked at random among those that the masks allow.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/grammar/matcher.h"

namespace bonsai::grammar {

inline std::vector<int32_t> allowed_tokens(Matcher &matcher, const Vocabulary &vocabulary) {
  std::vector<uint32_t> mask(vocabulary.n_words());
  EXPECT_TRUE(matcher.mask(mask));
  std::vector<int32_t> allowed;
  for (int32_t token = 0; token < static_cast<int32_t>(vocabulary.size()); ++token)
    if ((mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0) allowed.push_back(token);
  return allowed;
}

// nullopt: it has not come to an end after 400 tokens. What closes something comes first now and then, so that most do.
// below(n): a random number less than n.
inline std::optional<std::string> random_sentence(Matcher &matcher, const Vocabulary &vocabulary,
                                                  const std::function<uint32_t(uint32_t)> &below) {
  std::string text;
  for (int n = 0; n < 400 && !matcher.is_complete(); ++n) {
    const auto allowed = allowed_tokens(matcher, vocabulary);
    int32_t token = allowed[below(static_cast<uint32_t>(allowed.size()))];
    if (below(2) == 0)
      for (const int32_t other : allowed)
        if (!vocabulary.bytes(other).empty() &&
            std::string_view("\"]},").find(vocabulary.bytes(other)[0]) != std::string_view::npos)
          token = other;
    if (vocabulary.is_end(token)) break;
    EXPECT_TRUE(matcher.accept(token));
    text += vocabulary.bytes(token);
  }
  return matcher.can_end() ? std::optional(text) : std::nullopt;
}

}  // namespace bonsai::grammar
