// The table of the codecs that a GPU has kernels for: their constructors, and the names of each.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "worker/device/codec.h"

namespace tern::device {

// Makes a device codec and allocates its buffers.
template <typename Codes>
Result<std::unique_ptr<DeviceCodec>> MakeCodes(const DeviceCodec::Context& context) {
  auto codes = std::make_unique<Codes>(context);
  TERN_RETURN_IF_ERROR(codes->Allocate());
  return std::unique_ptr<DeviceCodec>(std::move(codes));
}

Result<std::unique_ptr<DeviceCodec>> MakeTernaryCodes(const DeviceCodec::Context& context);
Result<std::unique_ptr<DeviceCodec>> MakeQsgdCodes(const DeviceCodec::Context& context);
Result<std::unique_ptr<DeviceCodec>> MakeOneBitCodes(const DeviceCodec::Context& context);
Result<std::unique_ptr<DeviceCodec>> MakeTopKCodes(const DeviceCodec::Context& context);
Result<std::unique_ptr<DeviceCodec>> MakeFloatCodes(
    const DeviceCodec::Context& context);  // 32, 16 bits

// By the names of common/codec. Each codec here is marked in the table of common/codec/codecs.cc.
struct DeviceCodecEntry {
  std::string_view name;
  Result<std::unique_ptr<DeviceCodec>> (*make)(const DeviceCodec::Context& context);
};
inline constexpr DeviceCodecEntry kDeviceCodecs[] = {
    {"ternary", MakeTernaryCodes}, {"qsgd", MakeQsgdCodes},  {"onebit", MakeOneBitCodes},
    {"topk", MakeTopKCodes},       {"fp32", MakeFloatCodes}, {"fp16", MakeFloatCodes},
    {"bf16", MakeFloatCodes},
};

// Makes the device codec of layout.codec; kInternal unless codec::HasDeviceForm(layout.codec).
Result<std::unique_ptr<DeviceCodec>> MakeDeviceCodec(const DeviceCodec::Context& context);

}  // namespace tern::device
