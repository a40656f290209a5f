// The hosts of `tern launch`: from its flag -H, or from a file.
//
//   -H node0:2,node1,user@10.0.0.3:4,[fd00::1]:2
//
//   # A hostfile: one host a line.
//   node0 slots=2
//   node1
//   [fd00::1]:2
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

struct Host {
  std::string name;    // As ssh takes it: a name of ssh's configuration, an address, USER@HOST.
  uint32_t slots = 1;  // How many workers run there; 0: none, but perhaps a shard.

  friend bool operator==(const Host&, const Host&) = default;
};

// Reads the value of -H. A host that is there twice has the slots of both. kUsage, with what was
// seen, if the text is anything else.
Result<std::vector<Host>> ParseHosts(const std::string& text);
// Reads the text of a hostfile; `name` is the file's name in messages. The same errors.
Result<std::vector<Host>> ParseHostfile(const std::string& text, const std::string& name);

// The host of USER@HOST.
std::string WithoutUser(const std::string& name);

}  // namespace tern::tools
