#include "worker/device/codecs.h"

#include "common/base/text.h"

namespace tern::device {

Result<std::unique_ptr<DeviceCodec>> MakeDeviceCodec(const DeviceCodec::Context& context) {
  const codec::Codec& codec = *context.layout.codec;
  for (const DeviceCodecEntry& entry : kDeviceCodecs) {
    if (entry.name != codec.unrotated_name()) continue;
    return codec.rotates() ? MakeRotatedCodes(context, entry.make) : entry.make(context);
  }
  return Status(Code::kInternal, Cat("a GPU has no kernels for ", codec.name()));
}

}  // namespace tern::device
