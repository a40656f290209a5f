// Keys that had another name in an earlier version: (rule).formerly. A job with the old name is
// refused, and the message has the new one.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace tern::config {

// The dotted name of the key that was called `name` in the section `parent`, whose type is
// `section`; empty if no key was.
std::string FindRenamedKey(const std::string& parent, const std::string& name,
                           const google::protobuf::Descriptor& section);

}  // namespace tern::config
