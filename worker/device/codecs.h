// The table of the codecs that a GPU has kernels for (codecs.cc), and their constructors.
#pragma once

#include <memory>
#include <utility>

#include "worker/device/codec.h"

namespace tern::device {

// Makes one and allocates its buffers.
template <typename Codes>
Result<std::unique_ptr<DeviceCodec>> MakeCodes(const DeviceCodec::Work& work) {
  auto codes = std::make_unique<Codes>(work);
  TERN_RETURN_IF_ERROR(codes->Allocate());
  return std::unique_ptr<DeviceCodec>(std::move(codes));
}

Result<std::unique_ptr<DeviceCodec>> MakeTernaryCodes(const DeviceCodec::Work& work);
Result<std::unique_ptr<DeviceCodec>> MakeQsgdCodes(const DeviceCodec::Work& work);
Result<std::unique_ptr<DeviceCodec>> MakeOneBitCodes(const DeviceCodec::Work& work);
Result<std::unique_ptr<DeviceCodec>> MakeTopKCodes(const DeviceCodec::Work& work);
Result<std::unique_ptr<DeviceCodec>> MakeFloatCodes(const DeviceCodec::Work& work);  // 32, 16 bits

// Makes that of layout.codec; kInternal unless codec::HasDeviceForm of it.
Result<std::unique_ptr<DeviceCodec>> MakeDeviceCodec(const DeviceCodec::Work& work);

}  // namespace tern::device
