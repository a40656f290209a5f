// The kinds of `tern convert`, one file each; the table is in convert.cc.
#pragma once

#include "tools/commands.h"

namespace tern::tools {

// Writes a network with its weights as an ONNX file (onnx.cc).
Status ConvertOnnx(const Words& words);
// Packs a data set into train.tpk and test.tpk (pack.cc).
Status ConvertPack(const Words& words);

}  // namespace tern::tools
