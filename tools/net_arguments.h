// Command-line arguments that name a network.
#pragma once

#include <string>

#include "common/base/status.h"
#include "proto/net.pb.h"
#include "setup/arguments.h"

namespace tern::tools {

// Builds the network that `name` stands for: the name of a known network; a .json file with a
// NetDef, as `tern model NAME --json` prints it; or a job file. Image size and classes of a known
// network are those of its publication unless the flags --channels, --height, --width, --classes
// and --batch_norm change them. All defaults of the NetDef are filled in. Returns kUsage if a flag
// is not a number, or the name not known; kBadJob if the network cannot be built.
Result<pb::NetDef> NetFromArgument(const std::string& name, const setup::Arguments& arguments);

}  // namespace tern::tools
