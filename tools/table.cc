#include "tools/table.h"

#include <algorithm>
#include <cstdio>

namespace tern::tools {

std::string FormatTable(const std::vector<TableRow>& rows) {
  std::vector<size_t> column_widths;
  for (const TableRow& row : rows) {
    column_widths.resize(std::max(column_widths.size(), row.size()));
    for (size_t column = 0; column < row.size(); ++column)
      column_widths[column] = std::max(column_widths[column], row[column].size());
  }
  std::string text;
  for (const TableRow& row : rows) {
    std::string line = " ";
    for (size_t column = 0; column < row.size(); ++column) {
      line += " " + row[column];
      if (column + 1 < row.size())
        line += std::string(column_widths[column] - row[column].size() + 1, ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

void PrintTable(const std::vector<TableRow>& rows) { std::printf("%s", FormatTable(rows).c_str()); }

}  // namespace tern::tools
