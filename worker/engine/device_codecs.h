// The constructors of the codecs in device_codec_cuda.cc's table.
#pragma once

#include <memory>
#include <utility>

#include "worker/engine/device_codec.h"

namespace tern::engine::cuda {

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

}  // namespace tern::engine::cuda
