#include "worker/device/codec.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/text.h"

namespace tern::device {
Status StatsRoom::Allocate(const Most& most) {
  TERN_RETURN_IF_ERROR(tiles_.Allocate(most.tiles));
  TERN_RETURN_IF_ERROR(stats_.Allocate(most.parts));
  return done_.Allocate(most.parts);
}

Result<const kernels::DeviceStats*> StatsRoom::Launch(const float* arena, const Group& group,
                                                      Stream* stream) {
  const int launched = kernels::ComputeStatsOnDevice(stream->get(), arena, group.tiling(),
                                                     tiles_.get(), done_.get(), stats_.get());
  TERN_RETURN_IF_ERROR(Check(launched, "statistics of an arena"));
  return static_cast<const kernels::DeviceStats*>(stats_.get());
}

Result<std::vector<kernels::Stats>> StatsRoom::Compute(const float* arena, const Group& group,
                                                       Stream* stream) {
  const auto launched = Launch(arena, group, stream);
  if (!launched.ok()) return launched.status();
  std::vector<kernels::DeviceStats> raw(group.size());
  TERN_RETURN_IF_ERROR(
      stream->CopyOut(raw.data(), *launched, raw.size() * sizeof(kernels::DeviceStats)));
  TERN_RETURN_IF_ERROR(stream->Wait());
  std::vector<kernels::Stats> stats;
  for (const kernels::DeviceStats& one : raw) stats.push_back(kernels::ToStats(one));
  return stats;
}

Result<std::vector<kernels::Stats>> DeviceCodec::Prepare(uint32_t, const kernels::NoiseKey&) {
  return std::vector<kernels::Stats>();
}

Status DeviceCodec::Update(uint32_t, const DeviceModel::Sums&, const Step&, uint32_t*) {
  return Status(Code::kInternal, "the codec does not update at once");
}

Status DeviceCodec::AllocateBytes() {
  uint64_t code = 0, sums = 0;
  size_t segments = 0;
  for (const Group& chunk : work_.chunks) {
    size_t code_here = 0, sums_here = 0;
    for (size_t i = 0; i < chunk.size(); ++i) {
      const codec::Segment segment = SegmentOf(chunk.part(i));
      code_here += work_.layout.codec->MaxEncodedSize(segment);
      sums_here += work_.layout.codec->MaxSumSize(segment, static_cast<int>(work_.layout.workers));
    }
    code = std::max(code, Words(code_here));
    sums = std::max(sums, Words(sums_here));
    segments = std::max(segments, chunk.size());
  }
  pool_ = std::make_shared<PinnedPool>(code);
  TERN_RETURN_IF_ERROR(code_.Allocate(code));
  TERN_RETURN_IF_ERROR(sums_.Allocate(sums));
  most_sums_ = sums;
  return places_.Allocate(segments);
}

Result<std::vector<kernels::CodePlace>> DeviceCodec::PlacesOf(uint32_t chunk,
                                                              const DeviceModel::Sums& sums) {
  const Group& group = work_.chunks[chunk];
  const auto contributors = static_cast<int>(sums.contributors);
  std::vector<kernels::CodePlace> places;
  uint64_t at = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const auto size =
        work_.layout.codec->SumPart(sums.bytes.subspan(at), SegmentOf(group.part(i)), contributors);
    if (!size.ok()) return size.status().Within(Cat("the sums of chunk ", chunk));
    places.push_back({at, *size});
    at += *size;
  }
  // What its own directory says may still be more than there is room for.
  if (at == sums.bytes.size() && at <= most_sums_) return places;
  return Status(Code::kMismatch, Cat("the sums of chunk ", chunk, " are ", sums.bytes.size(),
                                     " bytes, expected ", std::min(at, most_sums_)));
}

Status DeviceCodec::BringUp(const DeviceModel::Sums& sums) {
  return work_.compute->CopyIn(sums_.get(), sums.bytes.data(), sums.bytes.size());
}

Status DeviceCodec::BringUpWithPlaces(uint32_t chunk, const DeviceModel::Sums& sums) {
  const auto places = PlacesOf(chunk, sums);
  if (!places.ok()) return places.status();
  TERN_RETURN_IF_ERROR(BringUp(sums));
  return work_.compute->CopyIn(places_.get(), places->data(),
                               places->size() * sizeof(kernels::CodePlace));
}

Bytes DeviceCodec::Share(PinnedPool::Slab slab, uint64_t size) {
  uint8_t* const begin = slab.get();
  return Bytes::Share(begin, size, [pool = pool_, slab = std::move(slab)]() mutable {
    pool->Put(std::move(slab));
  });
}

Result<Bytes> DeviceCodec::Take(uint64_t size, uint32_t* bad) {
  auto slab = pool_->Take();
  if (!slab.ok()) return slab.status();
  uint32_t not_finite = 0;
  if (bad != nullptr) TERN_RETURN_IF_ERROR(work_.coding->CopyOut(&not_finite, bad, sizeof *bad));
  TERN_RETURN_IF_ERROR(work_.coding->CopyOut(slab->get(), code_.get(), size));
  TERN_RETURN_IF_ERROR(work_.coding->Wait());
  Bytes code = Share(std::move(*slab), size);
  if (not_finite == 0) return code;
  TERN_RETURN_IF_ERROR(work_.coding->Zero(bad, sizeof *bad));
  return Status(Code::kDiverged, "what is to be coded is not finite");
}

Result<Bytes> DeviceCodec::TakeWithin(uint64_t most, const uint64_t* size) {
  auto slab = pool_->Take();
  if (!slab.ok()) return slab.status();
  uint64_t bytes = 0;
  TERN_RETURN_IF_ERROR(work_.coding->CopyOut(&bytes, size, sizeof bytes));
  TERN_RETURN_IF_ERROR(work_.coding->CopyOut(slab->get(), code_.get(), most));
  TERN_RETURN_IF_ERROR(work_.coding->Wait());
  return Share(std::move(*slab), bytes);
}

Result<Bytes> DeviceCodec::TakeOf(const uint64_t* size, uint32_t* bad) {
  uint64_t bytes = 0;
  TERN_RETURN_IF_ERROR(work_.coding->CopyOut(&bytes, size, sizeof bytes));
  TERN_RETURN_IF_ERROR(work_.coding->Wait());
  return Take(bytes, bad);
}

}  // namespace tern::device
