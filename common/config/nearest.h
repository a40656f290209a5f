// Finds the known name that is nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::config {

// The number of insertions, deletions, substitutions and swaps of neighbouring letters that turn
// `a` into `b`. Takes time proportional to |a| |b|.
size_t EditDistance(std::string_view a, std::string_view b);

// The name in `known` with the smallest edit distance; the first one if several are equally near.
// A known name is near if the distance is at most 2, or at most a third of its length if that is
// more. Empty if no known name is near.
std::string NearestName(std::string_view name, const std::vector<std::string>& known);

}  // namespace tern::config
