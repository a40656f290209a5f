// Lines for the reader of a non-blocking pipe, who may stand still for as long as he likes
// (Ctrl-Z): what is of passing interest leaves room for what is not.
#pragma once

#include <string_view>

namespace tern {

enum class LineValue {
  kPassing,  // Another one like it follows: it is left out where the pipe is a quarter full.
  kLasting,  // It may use all of the pipe.
};
// Writes the line, without its end, and '\n' to `fd`. Never waits. Returns whether the whole line
// is written; one that is left out leaves nothing. A descriptor that is no pipe has room for all.
bool WriteLine(int fd, std::string_view line, LineValue value);

}  // namespace tern
