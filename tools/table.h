// Text tables for the terminal.
#pragma once

#include <string>
#include <vector>

namespace tern::tools {

using TableRow = std::vector<std::string>;

// Aligns the columns, with two spaces before each. The first row holds the column names. Ends with
// a newline.
std::string FormatTable(const std::vector<TableRow>& rows);
void PrintTable(const std::vector<TableRow>& rows);

}  // namespace tern::tools
