// A network as the words of a subcommand name it.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/net.pb.h"
#include "tools/arguments.h"

namespace tern::tools {

// The flags that say what a known network is for: --channels, --height, --width, --classes,
// --batch_norm.
std::vector<Flag> NetFlags();

// The known network of that name, for the image and the classes that it was published for unless
// the flags say otherwise. kUsage, kBadJob.
Result<pb::NetDef> NetByName(const std::string& name, const Arguments& arguments);

// By `words`: the name of a known network; a NetDef in JSON, as `tern model NAME --json` prints
// it, in a file that ends in .json; else the file of a job, whose network it is. Complete.
Result<pb::NetDef> NetOfWords(const std::string& words, const Arguments& arguments);

}  // namespace tern::tools
