// Codes of the gradients of a model on a GPU (device_model.h). The coder thread makes all calls.
// After an error of the device every call reports it; kPeerLost names the call that failed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "kernels/codes/philox.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"

namespace tern::device {

// Buckets, chunks and parts as in the model's layout.
class DeviceCodes {
 public:
  virtual ~DeviceCodes() = default;

  // Call when the gradients of a bucket are ready, before its chunks are encoded. Returns the
  // statistics of the values to encode, by part; empty if the codec does not need them. `noise` as
  // in Encode.
  virtual Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                                      const kernels::NoiseKey& noise) = 0;
  // The statistics of a round's gradients, whether or not the codec needs them; prepares nothing.
  virtual Result<std::vector<kernels::Stats>> StatsOf(uint64_t round, uint32_t bucket) = 0;
  // Counts the bucket's gradients whose magnitude is at least that of their part in `magnitudes`;
  // skips parts with a negative magnitude.
  virtual Result<uint64_t> CountFrom(uint64_t round, uint32_t bucket,
                                     std::span<const float> magnitudes) = 0;
  // Copies gradients [begin, begin + size) to the host.
  virtual Status CopyGradientsToHost(uint64_t round, uint64_t begin, std::span<float> to) = 0;
  // Encodes a chunk. The result is in memory that the device writes and a socket may send from.
  // `scales`: by segment, for ternary codes. noise.tensor is ignored: each segment's own is used.
  // kDiverged if a value to encode is not finite and no statistics were taken.
  virtual Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                               const kernels::NoiseKey& noise) = 0;
  // The codec's memory of elements [begin, begin + size), as the arrays of its Memory's state, in
  // that order: device -> host; host -> device. ResetMemory resets it on the device.
  virtual Status CopyMemoryToHost(uint64_t begin, std::span<const std::span<float>> to) = 0;
  virtual Status CopyMemoryToDevice(uint64_t begin, std::span<const std::span<float>> from) = 0;
  virtual Status ResetMemory() = 0;
};

}  // namespace tern::device
