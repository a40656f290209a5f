// The table of the codecs that are implemented on a GPU: the name and the constructor of each.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "worker/device/codec.h"

namespace tern::device {

// Makes a device codec of class `Codec`, and allocates its buffers.
template <typename Codec>
Result<std::unique_ptr<DeviceCodec>> MakeCodecOf(const DeviceCodec::Context& context) {
  auto codec = std::make_unique<Codec>(context);
  TERN_RETURN_IF_ERROR(codec->Allocate());
  return std::unique_ptr<DeviceCodec>(std::move(codec));
}

Result<std::unique_ptr<DeviceCodec>> MakeTernaryCodes(const DeviceCodec::Context& context);
Result<std::unique_ptr<DeviceCodec>> MakeQsgdCodes(const DeviceCodec::Context& context);
Result<std::unique_ptr<DeviceCodec>> MakeOneBitCodes(const DeviceCodec::Context& context);
Result<std::unique_ptr<DeviceCodec>> MakeTopKCodes(const DeviceCodec::Context& context);
// Makes the codecs that send floats of 32 or 16 bits.
Result<std::unique_ptr<DeviceCodec>> MakeFloatCodes(const DeviceCodec::Context& context);

// Makes the codec that rotates gradients before `make_inner` encodes them, and their means back.
Result<std::unique_ptr<DeviceCodec>> MakeRotatedCodes(const DeviceCodec::Context& context,
                                                      DeviceCodec::Maker make_inner);

// A row of the table. `name` is the codec's name in the job. The table of all codecs,
// common/codec/codecs.cc, says which of them have a row here.
struct DeviceCodecEntry {
  std::string_view name;
  DeviceCodec::Maker make;
};
inline constexpr DeviceCodecEntry kDeviceCodecs[] = {
    {"ternary", MakeTernaryCodes}, {"qsgd", MakeQsgdCodes},  {"onebit", MakeOneBitCodes},
    {"topk", MakeTopKCodes},       {"fp32", MakeFloatCodes}, {"fp16", MakeFloatCodes},
    {"bf16", MakeFloatCodes},
};

// Makes the device codec of context.layout.codec, which may rotate. kInternal if that codec is not
// in the table.
Result<std::unique_ptr<DeviceCodec>> MakeDeviceCodec(const DeviceCodec::Context& context);

}  // namespace tern::device
