#include "tools/table.h"

#include <algorithm>
#include <cstdio>

namespace tern::tools {

std::string FormatTable(const std::vector<TableRow>& rows) {
  std::vector<size_t> width;
  for (const TableRow& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string text;
  for (const TableRow& row : rows) {
    std::string line = " ";
    for (size_t c = 0; c < row.size(); ++c) {
      line += " " + row[c];
      if (c + 1 < row.size()) line += std::string(width[c] - row[c].size() + 1, ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

void PrintTable(const std::vector<TableRow>& rows) { std::printf("%s", FormatTable(rows).c_str()); }

}  // namespace tern::tools
