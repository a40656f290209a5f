// Protobuf text -> Node, over protobuf's own tokenizer. TextFormat itself stops at the first fault
// and reads 010 as 8; TextFormat reads everything accepted here in the same way (a test compares).
#pragma once

#include <string>

#include "common/config/faults.h"
#include "common/config/node.h"

namespace tern::config {

// Reports syntax faults, and input beyond the limits of node.h, to `faults`. Extensions and Any are
// not part of a job's text.
Node ParseTextFormat(const std::string& text, Faults* faults);

}  // namespace tern::config
