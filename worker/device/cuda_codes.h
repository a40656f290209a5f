// Encodes the gradients of a model on a GPU: implements DeviceCodes (device_codes.h) with CUDA.
// Internal to worker/device.
#pragma once

#include <memory>

#include "worker/device/codec.h"
#include "worker/device/device_codes.h"
#include "worker/device/model_memory.h"

namespace tern::device {

class CudaCodes : public DeviceCodes {
 public:
  // `stream` is the stream of the thread that encodes; the `compute_stream` of Allocate is the
  // stream of the thread that trains, and `sums` is where sums may have been placed. All arguments
  // must outlive this object. Call Allocate once, before anything else.
  CudaCodes(const DeviceModel::Layout& layout, const ModelMemory& memory, Stream& stream)
      : num_elements_(layout.elements), memory_(memory), stream_(stream) {}
  Status Allocate(const DeviceModel::Layout& layout, Stream* compute_stream, SumMemory* sums);

  Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                              const kernels::NoiseKey& noise) override;
  Result<std::vector<kernels::Stats>> StatsOfCodedValues(uint64_t round, uint32_t bucket) override;
  Result<uint64_t> CountAtLeast(uint64_t round, uint32_t bucket,
                                std::span<const float> magnitudes) override;
  Status CopyGradientsToHost(uint64_t round, uint64_t begin, std::span<float> to) override;
  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                       const kernels::NoiseKey& noise) override;
  Status CopyMemoryToHost(uint64_t begin, std::span<const std::span<float>> to) override;
  Status CopyMemoryToDevice(uint64_t begin, std::span<const std::span<float>> from) override;
  Status ResetMemory() override;

  // The codec. The compute thread uses it to decode sums and update the weights.
  DeviceCodec& codec() { return *codec_; }

 private:
  const uint64_t num_elements_;  // The number of elements of the model.
  const ModelMemory& memory_;
  Stream& stream_;
  StatsComputer stats_;
  // The input, output and workspace of CountAtLeast.
  Array<float> magnitudes_;
  Array<uint32_t> counts_, counts_of_tiles_, counts_done_;
  std::unique_ptr<DeviceCodec> codec_;
};

}  // namespace tern::device
