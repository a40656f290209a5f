// Writes what a command makes to the place that its user names.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tern::tools {

// Writes `bytes` to the file that the user named. A regular file, or that to which a link points,
// keeps its old bytes until the new ones are complete; a pipe or terminal gets them as they are.
// kCannotWrite with the system's message.
Status WriteOutput(const std::string& path, std::string_view bytes);

}  // namespace tern::tools
