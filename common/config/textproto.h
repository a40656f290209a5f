// Protobuf text -> Node, over protobuf's own tokenizer. TextFormat itself stops at the first fault
// and takes 010 for 8; what is accepted here, TextFormat reads the same way (a test compares them).
#pragma once

#include <string>

#include "common/config/faults.h"
#include "common/config/node.h"

namespace tern::config {

// Syntax faults and more than the bounds of node.h go to `faults`. Extensions and Any are not part
// of a job's text.
Node ParseTextFormat(const std::string& text, Faults* faults);

}  // namespace tern::config
