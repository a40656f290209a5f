// The conversions of `tern convert`. kConverters in convert.cc lists them.
#pragma once

#include "tools/commands.h"

namespace tern::tools {

// Writes a network with its weights as an ONNX file (onnx.cc).
Status ConvertOnnx(const Args& args);
// Packs a data set into train.tpk and test.tpk (pack.cc).
Status ConvertPack(const Args& args);

}  // namespace tern::tools
