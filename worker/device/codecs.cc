#include "worker/device/codecs.h"

#include "common/base/text.h"

namespace tern::device {

Result<std::unique_ptr<DeviceCodec>> MakeDeviceCodec(const DeviceCodec::Context& context) {
  const std::string_view name = context.layout.codec->name();
  for (const DeviceCodecEntry& entry : kDeviceCodecs) {
    if (entry.name == name) return entry.make(context);
  }
  return Status(Code::kInternal, Cat("a GPU has no kernels for ", name));
}

}  // namespace tern::device
