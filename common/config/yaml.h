// YAML -> Node, through yaml-cpp's events: nothing is expanded, so the tree is no larger than the
// text.
#pragma once

#include <string>

#include "common/config/faults.h"
#include "common/config/node.h"

namespace tern::config {

// One document. Aliases, anchors, tags, duplicate keys, keys that are no plain names, a second
// document, and more than the bounds of node.h go to `faults`. An empty text is kNull. `set` marks
// the positions (see Position). `at_key` is the dotted key at which the text stands.
Node ParseYaml(const std::string& text, const std::string& at_key, int set, Faults* faults);

}  // namespace tern::config
