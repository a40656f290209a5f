#include "worker/device/cuda_codes.h"

#include <numeric>
#include <utility>

#include "kernels/codes/stats.h"
#include "kernels/codes/topk.h"
#include "worker/device/codecs.h"

namespace tern::device {

Status CudaCodes::Allocate(const DeviceModel::Layout& layout, Stream* compute_stream,
                           SumMemory* sums) {
  const MaxSizes& max_sizes = memory_.max_sizes;
  for (const Status& allocate_status :
       {stats_.Allocate(max_sizes), magnitudes_.Allocate(max_sizes.parts),
        counts_.Allocate(max_sizes.parts), counts_of_tiles_.Allocate(max_sizes.tiles),
        counts_done_.Allocate(max_sizes.parts)})
    TERN_RETURN_IF_ERROR(allocate_status);
  auto codec = MakeDeviceCodec({layout, memory_.buckets, memory_.chunks, memory_.GradientsByRound(),
                                &stream_, compute_stream, &stats_, sums});
  if (!codec.ok()) return codec.status();
  codec_ = std::move(*codec);
  return Ok();
}

Result<std::vector<kernels::Stats>> CudaCodes::Prepare(uint32_t bucket,
                                                       const kernels::NoiseKey& noise) {
  return codec_->Prepare(bucket, noise);
}

Result<std::vector<kernels::Stats>> CudaCodes::StatsOfCodedValues(uint64_t round, uint32_t bucket) {
  return stats_.Compute(codec_->ArenaToCheck(round), memory_.buckets[bucket], &stream_);
}

Result<uint64_t> CudaCodes::CountAtLeast(uint64_t round, uint32_t bucket,
                                         std::span<const float> magnitudes) {
  TERN_RETURN_IF_ERROR(
      stream_.CopyIn(magnitudes_.get(), magnitudes.data(), magnitudes.size_bytes()));
  const Result<const float*> values = codec_->ValuesToCode(round, bucket);
  if (!values.ok()) return values.status();
  TERN_RETURN_IF_ERROR(CheckCuda(
      kernels::CountAtLeastOnDevice(stream_.get(), *values, memory_.buckets[bucket].tiling(),
                                    magnitudes_.get(), counts_of_tiles_.get(), counts_done_.get(),
                                    counts_.get()),
      "a count of gradients"));
  std::vector<uint32_t> counts(magnitudes.size());
  TERN_RETURN_IF_ERROR(
      stream_.CopyOut(counts.data(), counts_.get(), counts.size() * sizeof(uint32_t)));
  TERN_RETURN_IF_ERROR(stream_.Wait());
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

Status CudaCodes::CopyGradientsToHost(uint64_t round, uint64_t begin, std::span<float> to) {
  TERN_RETURN_IF_ERROR(
      stream_.CopyOut(to.data(), codec_->GradientsOf(round) + begin, to.size_bytes()));
  return stream_.Wait();
}

Result<Bytes> CudaCodes::Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                                const kernels::NoiseKey& noise) {
  return codec_->Encode(chunk, scales, noise);
}

Status CudaCodes::CopyMemoryToHost(uint64_t begin, std::span<const std::span<float>> to) {
  const std::vector<float*> arenas = codec_->MemoryArenas();
  for (size_t i = 0; i < to.size(); ++i)
    TERN_RETURN_IF_ERROR(stream_.CopyOut(to[i].data(), arenas[i] + begin, to[i].size_bytes()));
  return stream_.Wait();
}

Status CudaCodes::CopyMemoryToDevice(uint64_t begin, std::span<const std::span<float>> from) {
  const std::vector<float*> arenas = codec_->MemoryArenas();
  for (size_t i = 0; i < from.size(); ++i)
    TERN_RETURN_IF_ERROR(stream_.CopyIn(arenas[i] + begin, from[i].data(), from[i].size_bytes()));
  return stream_.Wait();
}

Status CudaCodes::ResetMemory() {
  for (float* arena : codec_->MemoryArenas())
    TERN_RETURN_IF_ERROR(stream_.Zero(arena, num_elements_ * sizeof(float)));
  return stream_.Wait();
}

}  // namespace tern::device
