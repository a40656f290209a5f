#include "worker/device/codec.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/text.h"

namespace tern::device {
Status StatsComputer::Allocate(const MaxSizes& max_sizes) {
  TERN_RETURN_IF_ERROR(tile_stats_.Allocate(max_sizes.tiles));
  TERN_RETURN_IF_ERROR(part_stats_.Allocate(max_sizes.parts));
  return tiles_done_.Allocate(kernels::NumStatsCounters(max_sizes.parts, max_sizes.tiles));
}

Result<const kernels::DeviceStats*> StatsComputer::Launch(const float* arena, const Group& group,
                                                          Stream* stream) {
  const int error =
      kernels::ComputeStatsOnDevice(stream->get(), arena, group.tiling(), tile_stats_.get(),
                                    tiles_done_.get(), part_stats_.get());
  TERN_RETURN_IF_ERROR(CheckCuda(error, "statistics of an arena"));
  return static_cast<const kernels::DeviceStats*>(part_stats_.get());
}

Result<std::vector<kernels::Stats>> StatsComputer::Compute(const float* arena, const Group& group,
                                                           Stream* stream) {
  const auto launched_stats = Launch(arena, group, stream);
  if (!launched_stats.ok()) return launched_stats.status();
  std::vector<kernels::DeviceStats> raw_stats(group.size());
  TERN_RETURN_IF_ERROR(stream->CopyOut(raw_stats.data(), *launched_stats,
                                       raw_stats.size() * sizeof(kernels::DeviceStats)));
  TERN_RETURN_IF_ERROR(stream->Wait());
  std::vector<kernels::Stats> stats;
  for (size_t p = 0; p < raw_stats.size(); ++p)
    stats.push_back(kernels::ToStats(raw_stats[p], group.part(p).count));
  return stats;
}

Result<std::vector<kernels::Stats>> DeviceCodec::Prepare(uint32_t, const kernels::NoiseKey&) {
  return std::vector<kernels::Stats>();
}

Status DeviceCodec::Update(uint32_t, const DeviceModel::Sums&, const Step&, uint32_t*) {
  return Status(Code::kInternal, "this codec has no combined decoding and update");
}

uint64_t MaxSumBytes(const DeviceModel::Layout& layout) {
  uint64_t max_bytes = 0;
  for (const std::vector<kernels::Part>& chunk : layout.chunks) {
    uint64_t bytes = 0;
    for (const kernels::Part& part : chunk)
      bytes += layout.codec->MaxSumSize(SegmentOf(layout, part), static_cast<int>(layout.workers));
    max_bytes = std::max(max_bytes, RoundUpToWords(bytes));
  }
  return max_bytes;
}

Status DeviceCodec::AllocateBuffers() {
  uint64_t max_code_bytes = 0;
  size_t max_segments = 0;
  for (const Group& chunk : context_.chunks) {
    size_t code_bytes = 0;
    for (size_t i = 0; i < chunk.size(); ++i)
      code_bytes += context_.layout.codec->MaxEncodedSize(SegmentOf(chunk.part(i)));
    max_code_bytes = std::max(max_code_bytes, RoundUpToWords(code_bytes));
    max_segments = std::max(max_segments, chunk.size());
  }
  pool_ = std::make_shared<PinnedPool>(max_code_bytes);
  auto host_size = AllocatePinned(sizeof(uint64_t));
  if (!host_size.ok()) return host_size.status();
  host_size_ = std::move(*host_size);
  TERN_RETURN_IF_ERROR(code_.Allocate(max_code_bytes));
  max_sums_bytes_ = MaxSumBytes(context_.layout);
  TERN_RETURN_IF_ERROR(sums_.Allocate(max_sums_bytes_));
  return ranges_.Allocate(max_segments);
}

Result<std::vector<kernels::CodeRange>> DeviceCodec::RangesOf(uint32_t chunk,
                                                              const DeviceModel::Sums& sums) {
  const Group& group = context_.chunks[chunk];
  const auto contributors = static_cast<int>(sums.contributors);
  std::vector<kernels::CodeRange> ranges;
  uint64_t offset = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const auto sum_size = context_.layout.codec->SumSize(sums.bytes.subspan(offset),
                                                         SegmentOf(group.part(i)), contributors);
    if (!sum_size.ok()) return sum_size.status().Within(Cat("the sums of chunk ", chunk));
    ranges.push_back({offset, *sum_size});
    offset += *sum_size;
  }
  // The sizes come from the received bytes, which may claim more than the buffer sums_ has.
  if (offset == sums.bytes.size() && offset <= max_sums_bytes_) return ranges;
  return Status(Code::kMismatch, Cat("the sums of chunk ", chunk, " are ", sums.bytes.size(),
                                     " bytes, expected ", std::min(offset, max_sums_bytes_)));
}

Status DeviceCodec::UploadSums(const DeviceModel::Sums& sums) {
  return context_.sums->CopyIn(context_.compute_stream, sums_.get(), sums.bytes);
}

Status DeviceCodec::UploadSumsWithRanges(uint32_t chunk, const DeviceModel::Sums& sums) {
  const auto ranges = RangesOf(chunk, sums);
  if (!ranges.ok()) return ranges.status();
  TERN_RETURN_IF_ERROR(UploadSums(sums));
  return context_.compute_stream->CopyInNow(ranges_.get(), ranges->data(),
                                            ranges->size() * sizeof(kernels::CodeRange));
}

Bytes DeviceCodec::BytesOfSlab(PinnedPool::Slab slab, uint64_t size) {
  uint8_t* const begin = slab.get();
  return Bytes::Share(begin, size, [pool = pool_, slab = std::move(slab)]() mutable {
    pool->Release(std::move(slab));
  });
}

Result<Bytes> DeviceCodec::CopyCode(uint64_t size, uint32_t* bad_count) {
  auto slab = pool_->Acquire();
  if (!slab.ok()) return slab.status();
  uint32_t num_bad = 0;
  if (bad_count != nullptr)
    TERN_RETURN_IF_ERROR(context_.coder_stream->CopyOut(&num_bad, bad_count, sizeof *bad_count));
  TERN_RETURN_IF_ERROR(context_.coder_stream->CopyOut(slab->get(), code_.get(), size));
  TERN_RETURN_IF_ERROR(context_.coder_stream->Wait());
  Bytes code = BytesOfSlab(std::move(*slab), size);
  if (num_bad == 0) return code;
  TERN_RETURN_IF_ERROR(context_.coder_stream->Zero(bad_count, sizeof *bad_count));
  return Status(Code::kDiverged, "the values to encode are not finite");
}

Result<Bytes> DeviceCodec::CopyCodeWithin(uint64_t max_size, const uint64_t* device_size) {
  auto slab = pool_->Acquire();
  if (!slab.ok()) return slab.status();
  auto* code_bytes = reinterpret_cast<uint64_t*>(host_size_.get());
  TERN_RETURN_IF_ERROR(context_.coder_stream->CopyOut(code_bytes, device_size, sizeof *code_bytes));
  TERN_RETURN_IF_ERROR(context_.coder_stream->CopyOut(slab->get(), code_.get(), max_size));
  TERN_RETURN_IF_ERROR(context_.coder_stream->Wait());
  return BytesOfSlab(std::move(*slab), *code_bytes);
}

Result<Bytes> DeviceCodec::CopyCodeOfSize(const uint64_t* device_size, uint32_t* bad_count) {
  uint64_t code_bytes = 0;
  TERN_RETURN_IF_ERROR(context_.coder_stream->CopyOut(&code_bytes, device_size, sizeof code_bytes));
  TERN_RETURN_IF_ERROR(context_.coder_stream->Wait());
  return CopyCode(code_bytes, bad_count);
}

}  // namespace tern::device
