// How deep a JSON text nests, without parsing it.
#pragma once

#include <cstddef>
#include <string_view>

namespace tern {

// Whether objects and lists of the JSON text nest at most `max_depth` deep. Looks only at brackets
// outside of strings: the text may be invalid. A deep text costs a parser that builds a tree many
// times its length in memory, so text from elsewhere is checked first.
bool JsonNestsAtMost(std::string_view text, size_t max_depth);

}  // namespace tern
