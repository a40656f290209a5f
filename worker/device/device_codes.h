// The interface that encodes the gradients of a model whose arrays are on a GPU (device_model.h).
// Only the coder thread (which encodes) calls it. If the device fails, a call returns kPeerLost;
// the message names the CUDA call that reported the error.
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

// The parameters `bucket` and `chunk` are indices into DeviceModel::Layout. A bucket is a group of
// tensors whose gradients become ready together. A chunk is the piece of a bucket that one call of
// Encode encodes. Buckets and chunks consist of parts, which are ranges of one tensor.
class DeviceCodes {
 public:
  virtual ~DeviceCodes() = default;

  // Prepares a bucket for encoding. Call when the bucket's gradients are ready, before its chunks
  // are encoded. Returns the statistics of the values to encode, one element per part of the
  // bucket; empty if the codec does not need them. `noise`: the same as for Encode.
  virtual Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                                      const kernels::NoiseKey& noise) = 0;
  // Returns statistics that show which of the bucket's encoded values are not finite, one element
  // per part: those of the encoded values or, for 1bitSGD, of the residual, which is not finite
  // where an encoded value was not. Unlike Prepare, returns them for every codec, and prepares
  // nothing.
  virtual Result<std::vector<kernels::Stats>> StatsOfCodedValues(uint64_t round,
                                                                 uint32_t bucket) = 0;
  // Counts the bucket's gradients g with |g| >= magnitudes[p], where p is the part that contains g.
  // Skips parts whose magnitudes[p] is negative.
  virtual Result<uint64_t> CountAtLeast(uint64_t round, uint32_t bucket,
                                        std::span<const float> magnitudes) = 0;
  // Copies the gradients of elements [begin, begin + to.size()) of the model to the host.
  virtual Status CopyGradientsToHost(uint64_t round, uint64_t begin, std::span<float> to) = 0;
  // Encodes a chunk. Returns the code in page-locked host memory, from which a socket may send.
  // `scales`: one per part of the chunk, for ternary codecs only. `noise`: the key of the random
  // numbers; its field `tensor` is replaced by each part's own tensor. Codecs for which Prepare
  // returns no statistics return kDiverged if a value is not finite; other codecs do not check
  // this.
  virtual Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                               const kernels::NoiseKey& noise) = 0;
  // CopyMemoryToHost and CopyMemoryToDevice copy what the codec keeps from round to round
  // (codec::Memory) for the model's elements from `begin` on. The spans are the host's arrays, in
  // the order of Memory::AddState; the length of each is the number of elements. ResetMemory sets
  // the device's arrays to zero.
  virtual Status CopyMemoryToHost(uint64_t begin, std::span<const std::span<float>> to) = 0;
  virtual Status CopyMemoryToDevice(uint64_t begin, std::span<const std::span<float>> from) = 0;
  virtual Status ResetMemory() = 0;
};

}  // namespace tern::device
