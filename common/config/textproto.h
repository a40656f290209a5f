// Parses protobuf text into a Node with protobuf's tokenizer. protobuf's own parser, TextFormat, is
// not used because it would stop at the first fault and read 010 as 8. Every text that Tern accepts
// as a job has the same meaning for TextFormat; a test compares the jobs of the two parsers.
#pragma once

#include <string>

#include "common/config/faults.h"
#include "common/config/node.h"

namespace tern::config {

// Reports syntax errors, and input beyond the limits of node.h, to `faults`. Extensions and Any are
// not supported.
Node ParseTextFormat(const std::string& text, Faults* faults);

}  // namespace tern::config
