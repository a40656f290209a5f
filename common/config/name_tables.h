// What a job may name that common/config does not know itself.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tern::config {

// Names that a key with (rule).table may take, by table: {"models": {...}, "codecs": {...}, ...}.
// common/config knows none of them itself.
using NameTables = std::map<std::string, std::vector<std::string>>;

}  // namespace tern::config
