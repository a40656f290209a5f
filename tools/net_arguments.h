// Command-line arguments that name a network.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/net.pb.h"
#include "tools/arguments.h"

namespace tern::tools {

// Returns the flags that change a known network: --channels, --height, --width, --classes,
// --batch_norm.
std::vector<Flag> NetFlags();

// Builds the known network `name`. Image size and classes are those of its publication unless the
// flags change them. Returns kUsage if a flag is not a number, kBadJob if the network cannot be
// built.
Result<pb::NetDef> NetByName(const std::string& name, const Arguments& arguments);

// Builds the network that `name` stands for: the name of a known network; a .json file with a
// NetDef, as `tern model NAME --json` prints it; or a job file. All defaults of the NetDef are
// filled in.
Result<pb::NetDef> NetFromArgument(const std::string& name, const Arguments& arguments);

}  // namespace tern::tools
