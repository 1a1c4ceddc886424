// How much plain text a state reads whatever it is.
#pragma once

#include <cstdint>

#include "core/grammar/automaton.h"

namespace bonsai::grammar {

struct PlainRun {
  uint32_t length;      // every text of up to so many characters of plain text (vocabulary.h) is read within the rule
  bool rejects_longer;  // and none of more
};

// Of what is read from `state` on; the length is `most` at most. Strings, above all: their states allow nearly all
// tokens, or all up to a length, which need not be looked at one by one then.
PlainRun plain_run(const Automaton &automaton, uint32_t state, uint32_t most);

}  // namespace bonsai::grammar
