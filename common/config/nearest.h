// Finds the known name that is nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::config {

// The number of insertions, deletions, substitutions and swaps of neighbouring letters that turn
// `a` into `b`. Takes time |a| x |b|.
size_t EditDistance(std::string_view a, std::string_view b);

// The name in `known` with the smallest edit distance, the first one of several; empty if the
// distance exceeds 2 and a third of the name's length.
std::string Nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace tern::config
