// Networks named on a command line.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/net.pb.h"
#include "tools/arguments.h"

namespace tern::tools {

// The flags that size a known network: --channels, --height, --width, --classes, --batch_norm.
std::vector<Flag> NetFlags();

// The known network of that name, for the image and classes that it was published for unless the
// flags say otherwise. kUsage, kBadJob.
Result<pb::NetDef> NetByName(const std::string& name, const Arguments& arguments);

// The network that `words` names: a known network; a NetDef in JSON, as `tern model NAME --json`
// prints it, in a file that ends in .json; else a job file, whose network it is. Complete.
Result<pb::NetDef> NetOfWords(const std::string& words, const Arguments& arguments);

}  // namespace tern::tools
