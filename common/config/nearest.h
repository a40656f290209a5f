// Finds the known name that is nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::config {

// The number of insertions, deletions, substitutions and swaps of neighbouring letters that turn
// `a` into `b`. Takes time |a| x |b|.
size_t EditDistance(std::string_view a, std::string_view b);

// The name in `known` with the smallest edit distance; the first one if several are equally near.
// Empty if none is near: within 2 edits, or within a third of the known name's length if that is
// more.
std::string Nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace tern::config
