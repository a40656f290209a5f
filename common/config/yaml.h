// YAML -> Node, through yaml-cpp's events: nothing is expanded, so the tree is no larger than the
// text.
#pragma once

#include <string>

#include "common/config/faults.h"
#include "common/config/node.h"

namespace tern::config {

// Parses one document. Reports aliases, anchors, tags, duplicate keys, keys that are not plain
// names, a second document, and input beyond the limits of node.h to `faults`. An empty text gives
// kNull. `set` marks the positions (see Position). `at_key` is the dotted key of the text.
Node ParseYaml(const std::string& text, const std::string& at_key, int set, Faults* faults);

}  // namespace tern::config
