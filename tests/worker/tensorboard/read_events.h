// Reads event files back, record by record, as TensorBoard does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/event.pb.h"

namespace tern::tensorboard {

// The event files of a folder, sorted by name.
std::vector<std::string> EventFiles(const std::string& folder);
// All complete records of a file; fails the test if lengths or checksums are wrong. Ignores a
// truncated record at the end.
std::vector<pb::Event> ReadEvents(const std::string& path);
// The values of events: by their tag, and then by their step.
using ValuesByTag = std::map<std::string, std::map<int64_t, pb::Summary::Value>>;
ValuesByTag ValuesOf(const std::vector<pb::Event>& events);

}  // namespace tern::tensorboard
