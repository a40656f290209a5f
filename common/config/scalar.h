// The text of one value -> the field of a message.
#pragma once

#include <google/protobuf/message.h>

#include "common/config/node.h"

namespace tern::config {

// Sets `field` (adds to it, if repeated) from a scalar. False, and nothing set, if it is no value
// of the field's type: whole numbers are decimal without a leading zero, numbers are finite,
// booleans are `true` and `false`, and a quoted value is a text. Rules (ranges, tables) are not
// looked at. REQUIRES that `field` is no message.
bool PutScalar(const Node& scalar, const google::protobuf::FieldDescriptor* field,
               google::protobuf::Message* message);

}  // namespace tern::config
