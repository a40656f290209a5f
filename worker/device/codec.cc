#include "worker/device/codec.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/text.h"

namespace tern::device {
Status StatsWorkspace::Allocate(const MaxSizes& max) {
  TERN_RETURN_IF_ERROR(tiles_.Allocate(max.tiles));
  TERN_RETURN_IF_ERROR(stats_.Allocate(max.parts));
  return done_.Allocate(max.parts);
}

Result<const kernels::DeviceStats*> StatsWorkspace::Launch(const float* arena, const Group& group,
                                                           Stream* stream) {
  const int launched = kernels::ComputeStatsOnDevice(stream->get(), arena, group.tiling(),
                                                     tiles_.get(), done_.get(), stats_.get());
  TERN_RETURN_IF_ERROR(Check(launched, "statistics of an arena"));
  return static_cast<const kernels::DeviceStats*>(stats_.get());
}

Result<std::vector<kernels::Stats>> StatsWorkspace::Compute(const float* arena, const Group& group,
                                                            Stream* stream) {
  const auto launched = Launch(arena, group, stream);
  if (!launched.ok()) return launched.status();
  std::vector<kernels::DeviceStats> raw(group.size());
  TERN_RETURN_IF_ERROR(
      stream->CopyOut(raw.data(), *launched, raw.size() * sizeof(kernels::DeviceStats)));
  TERN_RETURN_IF_ERROR(stream->Wait());
  std::vector<kernels::Stats> stats;
  for (const kernels::DeviceStats& part_stats : raw) stats.push_back(kernels::ToStats(part_stats));
  return stats;
}

Result<std::vector<kernels::Stats>> DeviceCodec::Prepare(uint32_t, const kernels::NoiseKey&) {
  return std::vector<kernels::Stats>();
}

Status DeviceCodec::Update(uint32_t, const DeviceModel::Sums&, const Step&, uint32_t*) {
  return Status(Code::kInternal, "this codec has no combined decoding and update");
}

Status DeviceCodec::AllocateBytes() {
  uint64_t max_code = 0, max_sums = 0;
  size_t max_segments = 0;
  for (const Group& chunk : context_.chunks) {
    size_t code_bytes = 0, sums_bytes = 0;
    for (size_t i = 0; i < chunk.size(); ++i) {
      const codec::Segment segment = SegmentOf(chunk.part(i));
      code_bytes += context_.layout.codec->MaxEncodedSize(segment);
      sums_bytes +=
          context_.layout.codec->MaxSumSize(segment, static_cast<int>(context_.layout.workers));
    }
    max_code = std::max(max_code, RoundUpToWords(code_bytes));
    max_sums = std::max(max_sums, RoundUpToWords(sums_bytes));
    max_segments = std::max(max_segments, chunk.size());
  }
  pool_ = std::make_shared<PinnedPool>(max_code);
  TERN_RETURN_IF_ERROR(code_.Allocate(max_code));
  TERN_RETURN_IF_ERROR(sums_.Allocate(max_sums));
  max_sums_bytes_ = max_sums;
  return ranges_.Allocate(max_segments);
}

Result<std::vector<kernels::CodeRange>> DeviceCodec::RangesOf(uint32_t chunk,
                                                              const DeviceModel::Sums& sums) {
  const Group& group = context_.chunks[chunk];
  const auto contributors = static_cast<int>(sums.contributors);
  std::vector<kernels::CodeRange> ranges;
  uint64_t offset = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const auto size = context_.layout.codec->SumSize(sums.bytes.subspan(offset),
                                                     SegmentOf(group.part(i)), contributors);
    if (!size.ok()) return size.status().Within(Cat("the sums of chunk ", chunk));
    ranges.push_back({offset, *size});
    offset += *size;
  }
  // The sizes come from the received bytes, which may claim more than the buffer has.
  if (offset == sums.bytes.size() && offset <= max_sums_bytes_) return ranges;
  return Status(Code::kMismatch, Cat("the sums of chunk ", chunk, " are ", sums.bytes.size(),
                                     " bytes, expected ", std::min(offset, max_sums_bytes_)));
}

Status DeviceCodec::UploadSums(const DeviceModel::Sums& sums) {
  return context_.compute->CopyIn(sums_.get(), sums.bytes.data(), sums.bytes.size());
}

Status DeviceCodec::UploadSumsWithRanges(uint32_t chunk, const DeviceModel::Sums& sums) {
  const auto ranges = RangesOf(chunk, sums);
  if (!ranges.ok()) return ranges.status();
  TERN_RETURN_IF_ERROR(UploadSums(sums));
  return context_.compute->CopyIn(ranges_.get(), ranges->data(),
                                  ranges->size() * sizeof(kernels::CodeRange));
}

Bytes DeviceCodec::Share(PinnedPool::Slab slab, uint64_t size) {
  uint8_t* const begin = slab.get();
  return Bytes::Share(begin, size, [pool = pool_, slab = std::move(slab)]() mutable {
    pool->Release(std::move(slab));
  });
}

Result<Bytes> DeviceCodec::CopyCode(uint64_t size, uint32_t* bad) {
  auto slab = pool_->Acquire();
  if (!slab.ok()) return slab.status();
  uint32_t num_bad = 0;
  if (bad != nullptr) TERN_RETURN_IF_ERROR(context_.coding->CopyOut(&num_bad, bad, sizeof *bad));
  TERN_RETURN_IF_ERROR(context_.coding->CopyOut(slab->get(), code_.get(), size));
  TERN_RETURN_IF_ERROR(context_.coding->Wait());
  Bytes code = Share(std::move(*slab), size);
  if (num_bad == 0) return code;
  TERN_RETURN_IF_ERROR(context_.coding->Zero(bad, sizeof *bad));
  return Status(Code::kDiverged, "the values to encode are not finite");
}

Result<Bytes> DeviceCodec::CopyCodeWithin(uint64_t max, const uint64_t* size) {
  auto slab = pool_->Acquire();
  if (!slab.ok()) return slab.status();
  uint64_t bytes = 0;
  TERN_RETURN_IF_ERROR(context_.coding->CopyOut(&bytes, size, sizeof bytes));
  TERN_RETURN_IF_ERROR(context_.coding->CopyOut(slab->get(), code_.get(), max));
  TERN_RETURN_IF_ERROR(context_.coding->Wait());
  return Share(std::move(*slab), bytes);
}

Result<Bytes> DeviceCodec::CopyCodeOfSize(const uint64_t* size, uint32_t* bad) {
  uint64_t bytes = 0;
  TERN_RETURN_IF_ERROR(context_.coding->CopyOut(&bytes, size, sizeof bytes));
  TERN_RETURN_IF_ERROR(context_.coding->Wait());
  return CopyCode(bytes, bad);
}

}  // namespace tern::device
