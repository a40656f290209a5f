// Parses the text of a value into a field of a message.
#pragma once

#include <google/protobuf/message.h>

#include "common/config/node.h"

namespace tern::config {

// Sets `field` from a scalar, or adds an item if the field is repeated. Returns false, and changes
// nothing, if the scalar is not a value of the field's type: integers are decimal without a leading
// zero, numbers are finite, booleans are `true` or `false`, and no quoted value is a number or a
// boolean. Does not check rules (ranges, tables). REQUIRES that `field` is not a message.
bool SetScalar(const Node& scalar, const google::protobuf::FieldDescriptor* field,
               google::protobuf::Message* message);

}  // namespace tern::config
