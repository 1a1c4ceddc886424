// How much plain text a state reads whatever it is.
#pragma once

#include <cstdint>

#include "core/grammar/automaton.h"

namespace bonsai::grammar {

// The most n, up to `most`, for which every text of n characters of plain text (vocabulary.h) is read from `state` on
// within its rule, and so is every shorter one. Strings, above all: their states allow nearly all tokens, which need
// not be looked at one by one then.
uint32_t plain_run(const Automaton &automaton, uint32_t state, uint32_t most);

}  // namespace bonsai::grammar
