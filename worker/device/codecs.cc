#include "worker/device/codecs.h"

#include <map>
#include <string_view>

#include "common/base/text.h"

namespace tern::device {
namespace {

using Made = std::unique_ptr<DeviceCodec>;
using Maker = Result<Made> (*)(const DeviceCodec::Work& work);

// By the names of common/codec: each has a column in the table of common/codec/codecs.cc.
const std::map<std::string_view, Maker>& Makers() {
  static const std::map<std::string_view, Maker> makers = {
      {"ternary", MakeTernaryCodes}, {"qsgd", MakeQsgdCodes},  {"onebit", MakeOneBitCodes},
      {"topk", MakeTopKCodes},       {"fp32", MakeFloatCodes}, {"fp16", MakeFloatCodes},
      {"bf16", MakeFloatCodes}};
  return makers;
}

}  // namespace

Result<Made> MakeDeviceCodec(const DeviceCodec::Work& work) {
  const auto maker = Makers().find(work.layout.codec->name());
  if (maker != Makers().end()) return maker->second(work);
  return Status(Code::kInternal, Cat("a GPU has no kernels for ", work.layout.codec->name()));
}

}  // namespace tern::device
