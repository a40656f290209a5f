// Names that a job may use but that common/config does not know itself.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tern::config {

// The allowed names for keys with the option (rule).table, by table: {"models": {...}, "codecs":
// {...}, ...}. The caller of LoadJob passes them.
using NameTables = std::map<std::string, std::vector<std::string>>;

}  // namespace tern::config
