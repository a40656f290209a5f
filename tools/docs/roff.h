// Text for man pages, in roff with the macros of man(7).
#pragma once

#include <string>

namespace tern::tools {

// Escapes a text of one or more lines, so that roff prints it as it is.
std::string RoffText(const std::string& text);
// Like RoffText, for sentences: words in backticks become bold.
std::string RoffSentences(const std::string& text);

}  // namespace tern::tools
