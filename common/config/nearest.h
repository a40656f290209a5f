// The known name nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::config {

// Insertions, deletions, changes and swaps of neighbours that turn `a` into `b`. REQUIRES short
// texts.
size_t EditDistance(std::string_view a, std::string_view b);

// The nearest of `known`, the first of equals; empty if none is near (a third of its letters, at
// least 2).
std::string Nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace tern::config
