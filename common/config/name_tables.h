// What a job may name that common/config does not know itself.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tern::config {

// The names that a key with (rule).table may take, by table: {"models": {...}, "codecs": {...},
// ...}. The caller passes them: common/config itself knows none.
using NameTables = std::map<std::string, std::vector<std::string>>;

}  // namespace tern::config
