// Reads event files back, record by record, as TensorBoard does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/event.pb.h"

namespace tern::tensorboard {

// The event files of a folder, by name.
std::vector<std::string> EventFiles(const std::string& folder);
// All whole records of a file; the test fails where lengths or checksums are wrong. What is cut off
// at its end is passed over.
std::vector<pb::Event> ReadEvents(const std::string& path);
// Their values by tag, step.
using ByTag = std::map<std::string, std::map<int64_t, pb::Summary::Value>>;
ByTag ValuesOf(const std::vector<pb::Event>& events);

}  // namespace tern::tensorboard
