// Finds keys by the names that they had in earlier versions, which the option (rule).formerly of a
// key lists. A job with an old name is refused, and the error message says the new name.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace tern::config {

// The dotted name of the key that was called `name` in the section `parent`, whose type is
// `section`; empty if there is no such key.
std::string FindRenamedKey(const std::string& parent, const std::string& name,
                           const google::protobuf::Descriptor& section);

}  // namespace tern::config
