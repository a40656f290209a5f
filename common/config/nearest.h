// The known name nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::config {

// How many insertions, deletions, changes and swaps of neighbours turn `a` into `b`. REQUIRES short
// texts.
size_t EditDistance(std::string_view a, std::string_view b);

// The nearest name in `known`, the first of equally near ones; empty if none is near (at most a
// third of its letters differ, or 2).
std::string Nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace tern::config
