// Whether token ids of one model mean the same to another.
#pragma once

#include <string>

#include "core/text/tokenizer.h"

namespace bonsai::text {

// The first id, of those that both have, whose token is another: "token 3 to be 'b' instead of 'a'", with that of
// `found` first. Empty: there is none.
std::string first_difference(const Tokenizer &expected, const Tokenizer &found);

}  // namespace bonsai::text
