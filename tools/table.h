// Tables for people.
#pragma once

#include <string>
#include <vector>

namespace tern::tools {

using TableRow = std::vector<std::string>;

// Columns of equal width, two spaces before each; the first row is their names. Ends with a new
// line.
std::string FormatTable(const std::vector<TableRow>& rows);
void PrintTable(const std::vector<TableRow>& rows);

}  // namespace tern::tools
