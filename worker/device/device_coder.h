// Implements client::GradientCoder, which encodes the gradients that a worker pushes, for gradients
// that are on a GPU (device_codes.h).
#pragma once

#include <memory>
#include <vector>

#include "client/exchange/gradient_coder.h"
#include "worker/device/device_codes.h"

namespace tern::device {

class DeviceCoder : public client::GradientCoder {
 public:
  // `setup` and `codes` must outlive this object.
  DeviceCoder(const setup::Setup& setup, uint32_t rank, DeviceCodes& codes);

  Result<BucketParams> Prepare(const BucketValues& values) override;
  Result<uint64_t> CountClamped(const BucketValues& values, const BucketParams& params,
                                std::span<const float> own) override;
  Result<Bytes> Encode(const BucketValues& values, const protocol::Chunk& chunk,
                       const BucketParams& params, std::span<const float> before) override;
  Result<std::vector<float>> CopyToHost(const BucketValues& values) override;
  Status ClearMemories() override;
  Status VisitMemories(const std::function<void(SavedState)>& use) override;

 private:
  // Returns kDiverged. If a tensor of the bucket (a group of tensors) has a value that is not
  // finite, the message names the first such tensor.
  Status NonFiniteError(const BucketValues& values);

  DeviceCodes& codes_;
  // For each tensor, memory on the host for what the tensor's codec keeps from round to round; null
  // if the codec keeps nothing. Used only while VisitMemories copies that state from and to the
  // device.
  std::vector<std::unique_ptr<codec::Memory>> memories_;
};

}  // namespace tern::device
