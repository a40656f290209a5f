// The coder of gradients on a GPU (device_codes.h).
#pragma once

#include <memory>
#include <vector>

#include "client/exchange/gradient_coder.h"
#include "worker/device/device_codes.h"

namespace tern::device {

class DeviceCoder : public client::GradientCoder {
 public:
  // `setup` and `codes` outlive it.
  DeviceCoder(const setup::Setup& setup, uint32_t rank, DeviceCodes& codes);

  Result<Prepared> Prepare(const Values& values) override;
  Result<uint64_t> CountClamped(const Values& values, const Prepared& prepared,
                                std::span<const float> own) override;
  Result<Bytes> Encode(const Values& values, const protocol::Chunk& chunk, const Prepared& prepared,
                       std::span<const float> before) override;
  Result<std::vector<float>> Copy(const Values& values) override;
  Status Forget() override;
  Status WithKept(const std::function<void(SavedState)>& use) override;

 private:
  // kDiverged with the name of the bucket's tensor that has a non-finite value.
  Status NonFiniteTensor(const Values& values);

  DeviceCodes& codes_;
  // By tensor, on the host; null if the codec keeps nothing.
  std::vector<std::unique_ptr<codec::Memory>> memories_;
};

}  // namespace tern::device
