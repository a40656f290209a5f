// Parses YAML into a Node through yaml-cpp's events. Aliases are refused, not expanded, so the tree
// is no larger than the text.
#pragma once

#include <string>

#include "common/config/faults.h"
#include "common/config/node.h"

namespace tern::config {

// Parses one document. Reports syntax errors, aliases, anchors, tags, duplicate keys, keys that are
// not scalars, a second document, and input beyond the limits of node.h to `faults`. An empty text
// gives kNull. All positions get `override_index`: the index of the --set override that the text
// comes from, or -1. `root_key`: the dotted key whose value the text is; empty for a whole job.
Node ParseYaml(const std::string& text, const std::string& root_key, int override_index,
               Faults* faults);

}  // namespace tern::config
