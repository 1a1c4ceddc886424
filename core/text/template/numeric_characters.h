// Which characters are numbers to Python: str.isdecimal(), isdigit() and isnumeric().
#pragma once

namespace bonsai::jinja {

// A digit of a decimal system, of whichever script.
bool is_decimal(char32_t c);
// These, and digits that do not stand for one another's tens: superscripts, digits in circles.
bool is_digit(char32_t c);
// These, and all else that has a value: fractions, Roman numerals, letters that are numbers, as Chinese ones are.
bool is_numeric(char32_t c);

}  // namespace bonsai::jinja
