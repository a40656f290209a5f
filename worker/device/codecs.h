// The table of the codecs that a GPU has kernels for (codecs.cc), and their constructors.
#pragma once

#include <memory>
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

// Makes the device codec of layout.codec; kInternal unless codec::HasDeviceForm(layout.codec).
Result<std::unique_ptr<DeviceCodec>> MakeDeviceCodec(const DeviceCodec::Context& context);

}  // namespace tern::device
