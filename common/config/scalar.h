// Parses the text of one value into the field of a message.
#pragma once

#include <google/protobuf/message.h>

#include "common/config/node.h"

namespace tern::config {

// Sets `field` (or adds to it, if repeated) from a scalar. Returns false, and sets nothing, if it
// is not a value of the field's type: integers are decimal without a leading zero, numbers are
// finite, booleans are `true` and `false`, and a quoted value is a text. Does not check rules
// (ranges, tables). REQUIRES that `field` is not a message.
bool PutScalar(const Node& scalar, const google::protobuf::FieldDescriptor* field,
               google::protobuf::Message* message);

}  // namespace tern::config
