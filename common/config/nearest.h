// Finds the known name that is nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::config {

// The least number of insertions, deletions, substitutions and swaps of neighbouring letters that
// turn `a` into `b`. Takes time proportional to |a| |b|.
size_t EditDistance(std::string_view a, std::string_view b);

// The nearest of the names in `known`; the first one if several are equally near. A known name is
// near if its edit distance from `name` is less than the length of `name`, and at most 2 or a third
// of the known name's length, unless the two differ only in their numbers. Empty if no known name
// is near, or if `name` has more than 64 bytes.
std::string NearestName(std::string_view name, const std::vector<std::string>& known);

}  // namespace tern::config
