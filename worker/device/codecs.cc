#include "worker/device/codecs.h"

#include <map>
#include <string_view>

#include "common/base/text.h"

namespace tern::device {
namespace {

using CodecPtr = std::unique_ptr<DeviceCodec>;
using MakeFunction = Result<CodecPtr> (*)(const DeviceCodec::Context& context);

// By the names of common/codec. Each codec here is marked in the table of common/codec/codecs.cc.
const std::map<std::string_view, MakeFunction>& MakeFunctions() {
  static const std::map<std::string_view, MakeFunction> makers = {
      {"ternary", MakeTernaryCodes}, {"qsgd", MakeQsgdCodes},  {"onebit", MakeOneBitCodes},
      {"topk", MakeTopKCodes},       {"fp32", MakeFloatCodes}, {"fp16", MakeFloatCodes},
      {"bf16", MakeFloatCodes}};
  return makers;
}

}  // namespace

Result<CodecPtr> MakeDeviceCodec(const DeviceCodec::Context& context) {
  const auto maker = MakeFunctions().find(context.layout.codec->name());
  if (maker != MakeFunctions().end()) return maker->second(context);
  return Status(Code::kInternal, Cat("a GPU has no kernels for ", context.layout.codec->name()));
}

}  // namespace tern::device
