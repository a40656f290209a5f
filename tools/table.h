// Text tables for the terminal.
#pragma once

#include <string>
#include <vector>

namespace tern::tools {

using TableRow = std::vector<std::string>;

// Formats the rows with aligned columns and two spaces before each column. The text ends
// with a newline.
std::string FormatTable(const std::vector<TableRow>& rows);
void PrintTable(const std::vector<TableRow>& rows);

}  // namespace tern::tools
