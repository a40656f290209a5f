// The interface that encodes the gradients of a model whose arrays are on a GPU (device_model.h).
// Only the coder thread calls it. After an error of the device every call fails with kPeerLost, and
// names the device call that failed first.
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

// Buckets and chunks are indices into DeviceModel::Layout, which also defines the parts of each.
class DeviceCodes {
 public:
  virtual ~DeviceCodes() = default;

  // Call when the gradients of a bucket are ready, and before its chunks are encoded. Returns the
  // statistics of the values to encode, by part of the bucket; empty if the codec does not need
  // them. `noise`: the same as for Encode.
  virtual Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                                      const kernels::NoiseKey& noise) = 0;
  // The statistics of the bucket's gradients of a round, by part, also if the codec does not need
  // them. Does not prepare Encode.
  virtual Result<std::vector<kernels::Stats>> StatsOf(uint64_t round, uint32_t bucket) = 0;
  // Counts the bucket's gradients whose magnitude is at least `magnitudes[part]`; skips parts for
  // which that is negative.
  virtual Result<uint64_t> CountFrom(uint64_t round, uint32_t bucket,
                                     std::span<const float> magnitudes) = 0;
  // Copies the gradients of elements [begin, begin + to.size()) of the model to the host.
  virtual Status CopyGradientsToHost(uint64_t round, uint64_t begin, std::span<float> to) = 0;
  // Encodes a chunk. The result is in host memory that the device writes directly and from which a
  // socket may send. `scales`: one per segment of the chunk, for ternary codecs only. `noise`: the
  // key of the random numbers; its field `tensor` is ignored, and each segment's tensor is used
  // instead. kDiverged if a value to encode is not finite and the codec takes no statistics, which
  // would have shown it.
  virtual Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                               const kernels::NoiseKey& noise) = 0;
  // What the codec keeps between rounds (codec::Memory) of elements [begin, begin + size): one span
  // per array of the Memory's state, in the same order. CopyMemoryToHost copies device -> host,
  // CopyMemoryToDevice host -> device; ResetMemory resets the device's arrays.
  virtual Status CopyMemoryToHost(uint64_t begin, std::span<const std::span<float>> to) = 0;
  virtual Status CopyMemoryToDevice(uint64_t begin, std::span<const std::span<float>> from) = 0;
  virtual Status ResetMemory() = 0;
};

}  // namespace tern::device
