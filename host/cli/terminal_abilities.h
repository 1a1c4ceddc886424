// What a terminal can show beside text.
#pragma once

namespace bonsai::cli {

// Whether `file`, a descriptor, is a terminal that obeys escape sequences, by the variable TERM: not without one, and
// not "dumb".
bool obeys_escapes(int file);

// Whether text on it may have colours and such, too: not where a user has set NO_COLOR to anything
// (https://no-color.org).
bool may_be_styled(int file);

}  // namespace bonsai::cli
