// Writes a word so that a shell reads it as one: for commands that a user copies, or that a shell
// on another host gets.
#pragma once

#include <string>
#include <string_view>

namespace tern {

// Returns `word` as it is if no shell changes it, else within single quotes.
std::string ShellWord(std::string_view word);

}  // namespace tern
