#pragma once

#include <vector>

#include "core/base/result.h"
#include "core/text/template/ast.h"
#include "core/text/template/lexer.h"

namespace bonsai::jinja {

// Parses a whole template from the tokens that tokenize() made. Errors begin with "line N: ".
Result<Body> parse(std::vector<Token> tokens);

}  // namespace bonsai::jinja
