#include "worker/engine/model_cuda.h"

#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "kernels/planes.h"

namespace tern::engine {
namespace cuda {
namespace {

// An array on the device that is written before it is read.
template <typename T>
class Array {
 public:
  Status Allocate(size_t count) {
    auto made = AllocateDevice(count * sizeof(T));
    if (made.ok()) memory_ = std::move(*made);
    return made.status();
  }
  Status Fill(const std::vector<T>& from, Stream* stream) {
    TERN_RETURN_IF_ERROR(Allocate(from.size()));
    return stream->CopyIn(get(), from.data(), from.size() * sizeof(T));
  }
  T* get() const { return static_cast<T*>(memory_.get()); }

 private:
  DeviceMemory memory_;
};

// Parts that are worked on together, cut into tiles there.
struct Group {
  kernels::Tiling host;
  Array<kernels::Tile> tiles;
  Array<kernels::TiledPart> parts;
  Array<kernels::TiledChunk> chunks;

  Status Make(std::vector<kernels::Part> of, Stream* stream) {
    for (kernels::Part& part : of) part.chunk = 0;
    host = kernels::CutIntoTiles(of);
    TERN_RETURN_IF_ERROR(tiles.Fill(host.tiles, stream));
    TERN_RETURN_IF_ERROR(parts.Fill(host.parts, stream));
    return chunks.Fill(host.chunks, stream);
  }
  kernels::DeviceTiling tiling() const {
    return {tiles.get(), parts.get(), chunks.get(), static_cast<uint32_t>(host.tiles.size())};
  }
};

// The largest that any of the groups has.
struct Most {
  size_t tiles = 0, parts = 0, out_bytes = 0, plane_bytes = 0;
  void See(const kernels::Tiling& tiling) {
    size_t planes = 0;
    for (const kernels::TiledPart& part : tiling.parts)
      planes += kernels::PlaneBytes(part.part.count);
    tiles = std::max(tiles, tiling.tiles.size());
    parts = std::max(parts, tiling.parts.size());
    out_bytes = std::max<size_t>(out_bytes, tiling.out_bytes);
    plane_bytes = std::max(plane_bytes, planes);
  }
};

constexpr int kMostPlanes = 12;  // of 2047 workers

class Model : public CudaModel {
 public:
  Status Allocate(const Layout& layout);

  const std::shared_ptr<Stream>& stream() const override { return stream_; }
  float* weights() const override { return weights_.get(); }
  float* gradients() const override { return gradients_.get(); }

  Status Send(const Host& from) override;
  Status Bring(const Host& to) override;
  Status AddDecay(uint64_t begin, uint64_t count, float decay) override;
  Status Update(uint32_t chunk, std::span<const uint8_t> planes, uint32_t contributors,
                std::span<const float> scalers, const kernels::UpdateStep& step,
                std::span<const kernels::TensorRates> rates) override;
  Status CheckSums() override;
  Result<std::vector<kernels::Stats>> StatsOf(uint32_t bucket) override;
  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                       const kernels::NoiseKey& noise) override;

 private:
  Status AllocateRoom(const Most& most);

  std::shared_ptr<Stream> stream_;
  std::unique_ptr<Stream> coding_;
  size_t bytes_ = 0;  // of an arena
  Array<float> weights_, gradients_;
  std::vector<Array<float>> slots_;
  std::vector<Group> buckets_, chunks_;
  // The coder's.
  Array<kernels::DeviceStats> tile_stats_, stats_;
  Array<uint32_t> parts_done_, ones_, sign_bit_, chunk_done_;
  Array<uint64_t> mask_begin_, code_size_;
  Array<uint8_t> masks_, signs_, code_;
  std::shared_ptr<PinnedPool> codes_;  // on their way
  Array<kernels::TernaryScale> scales_;
  // The compute thread's.
  Array<uint8_t> planes_;
  Array<kernels::SumPlace> places_;
  Array<kernels::TensorRates> rates_;
  Array<uint32_t> bad_;
};

Status Model::Allocate(const Layout& layout) {
  TERN_RETURN_IF_ERROR(FindDevice());
  auto stream = Stream::Make(), coding = Stream::Make();
  if (!stream.ok()) return stream.status();
  if (!coding.ok()) return coding.status();
  stream_ = std::move(*stream);
  coding_ = std::move(*coding);
  bytes_ = layout.elements * sizeof(float);
  TERN_RETURN_IF_ERROR(weights_.Allocate(layout.elements));
  TERN_RETURN_IF_ERROR(gradients_.Allocate(layout.elements));
  slots_.resize(layout.slots);
  for (Array<float>& slot : slots_) TERN_RETURN_IF_ERROR(slot.Allocate(layout.elements));
  Most most;
  for (const auto& [groups, parts] :
       {std::pair{&buckets_, &layout.buckets}, std::pair{&chunks_, &layout.chunks}}) {
    groups->resize(parts->size());
    for (size_t i = 0; i < parts->size(); ++i) {
      TERN_RETURN_IF_ERROR((*groups)[i].Make((*parts)[i], stream_.get()));
      most.See((*groups)[i].host);
    }
  }
  TERN_RETURN_IF_ERROR(AllocateRoom(most));
  return stream_->Wait();
}

Status Model::AllocateRoom(const Most& most) {
  codes_ = std::make_shared<PinnedPool>(most.out_bytes);
  const size_t tile_bytes = most.tiles * kernels::kTile / 8;
  for (const Status& allocated :
       {tile_stats_.Allocate(most.tiles), stats_.Allocate(most.parts),
        parts_done_.Allocate(most.parts), ones_.Allocate(most.tiles),
        sign_bit_.Allocate(most.tiles), chunk_done_.Allocate(1), mask_begin_.Allocate(most.parts),
        code_size_.Allocate(1), masks_.Allocate(tile_bytes), signs_.Allocate(tile_bytes),
        code_.Allocate(most.out_bytes), scales_.Allocate(most.parts),
        planes_.Allocate(kMostPlanes * most.plane_bytes), places_.Allocate(most.parts),
        rates_.Allocate(most.parts), bad_.Allocate(1)})
    TERN_RETURN_IF_ERROR(allocated);
  return Ok();
}

Status Model::Send(const Host& from) {
  TERN_RETURN_IF_ERROR(stream_->CopyIn(weights_.get(), from.weights, bytes_));
  for (size_t i = 0; i < slots_.size(); ++i)
    TERN_RETURN_IF_ERROR(stream_->CopyIn(slots_[i].get(), from.slots[i], bytes_));
  return stream_->Wait();
}

Status Model::Bring(const Host& to) {
  TERN_RETURN_IF_ERROR(stream_->CopyOut(to.weights, weights_.get(), bytes_));
  for (size_t i = 0; i < slots_.size(); ++i)
    TERN_RETURN_IF_ERROR(stream_->CopyOut(to.slots[i], slots_[i].get(), bytes_));
  return stream_->Wait();
}

// The coder's stream does not know of this one's: the gradient is waited for.
Status Model::AddDecay(uint64_t begin, uint64_t count, float decay) {
  float* g = gradients_.get() + begin;
  TERN_RETURN_IF_ERROR(
      Check(kernels::AddDecayOnDevice(coding_->get(), g, weights_.get() + begin, count, decay, g),
            "weight decay"));
  return Ok();
}

Status Model::Update(uint32_t chunk, std::span<const uint8_t> planes, uint32_t contributors,
                     std::span<const float> scalers, const kernels::UpdateStep& step,
                     std::span<const kernels::TensorRates> rates) {
  const Group& group = chunks_[chunk];
  std::vector<kernels::SumPlace> places;
  size_t bytes = 0;
  for (size_t i = 0; i < group.host.parts.size(); ++i) {
    places.push_back({bytes, scalers[i]});
    bytes += kernels::SumBits(static_cast<int>(contributors)) *
             kernels::PlaneBytes(group.host.parts[i].part.count);
  }
  if (bytes != planes.size()) {
    return Status(Code::kMismatch, Cat("the sums of chunk ", chunk, " are ", planes.size(),
                                       " bytes, expected ", bytes));
  }
  TERN_RETURN_IF_ERROR(stream_->CopyIn(planes_.get(), planes.data(), planes.size()));
  TERN_RETURN_IF_ERROR(
      stream_->CopyIn(places_.get(), places.data(), places.size() * sizeof(kernels::SumPlace)));
  TERN_RETURN_IF_ERROR(stream_->CopyIn(rates_.get(), rates.data(), rates.size_bytes()));
  kernels::ModelArenas arenas{weights_.get()};
  if (!slots_.empty()) arenas.first = slots_[0].get();
  if (slots_.size() > 1) arenas.second = slots_[1].get();
  return Check(
      kernels::DecodeAndUpdateOnDevice(stream_->get(), group.tiling(), planes_.get(), places_.get(),
                                       contributors, step, rates_.get(), arenas, bad_.get()),
      "an update of the weights");
}

Status Model::CheckSums() {
  uint32_t bad = 0;
  TERN_RETURN_IF_ERROR(stream_->CopyOut(&bad, bad_.get(), sizeof bad));
  TERN_RETURN_IF_ERROR(stream_->Wait());
  if (bad == 0) return Ok();
  return Status(Code::kMismatch,
                "sums of codes have come that no codes of so many workers can have");
}

Result<std::vector<kernels::Stats>> Model::StatsOf(uint32_t bucket) {
  const Group& group = buckets_[bucket];
  TERN_RETURN_IF_ERROR(
      Check(kernels::ComputeStatsOnDevice(coding_->get(), gradients_.get(), group.tiling(),
                                          tile_stats_.get(), parts_done_.get(), stats_.get()),
            "statistics of gradients"));
  std::vector<kernels::DeviceStats> raw(group.host.parts.size());
  TERN_RETURN_IF_ERROR(
      coding_->CopyOut(raw.data(), stats_.get(), raw.size() * sizeof(kernels::DeviceStats)));
  TERN_RETURN_IF_ERROR(coding_->Wait());
  std::vector<kernels::Stats> stats;
  for (const kernels::DeviceStats& one : raw) stats.push_back(kernels::ToStats(one));
  return stats;
}

Result<Bytes> Model::Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                            const kernels::NoiseKey& noise) {
  const Group& group = chunks_[chunk];
  TERN_RETURN_IF_ERROR(coding_->CopyIn(scales_.get(), scales.data(), scales.size_bytes()));
  const kernels::TernaryRoom room{masks_.get(),    signs_.get(),      ones_.get(),
                                  sign_bit_.get(), mask_begin_.get(), chunk_done_.get()};
  TERN_RETURN_IF_ERROR(
      Check(kernels::TernarizeOnDevice(coding_->get(), gradients_.get(), group.tiling(),
                                       scales_.get(), noise, room, code_.get(), code_size_.get()),
            "codes of gradients"));
  uint64_t size = 0;
  TERN_RETURN_IF_ERROR(coding_->CopyOut(&size, code_size_.get(), sizeof size));
  TERN_RETURN_IF_ERROR(coding_->Wait());
  auto slab = codes_->Take();
  if (!slab.ok()) return slab.status();
  uint8_t* const to = slab->get();
  Bytes code = Bytes::Share(
      to, size, [pool = codes_, slab = std::move(*slab)]() mutable { pool->Put(std::move(slab)); });
  TERN_RETURN_IF_ERROR(coding_->CopyOut(to, code_.get(), size));
  TERN_RETURN_IF_ERROR(coding_->Wait());
  return code;
}

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<DeviceModel>> DeviceModel::Make(const Layout& layout) {
  auto model = std::make_unique<cuda::Model>();
  TERN_RETURN_IF_ERROR(model->Allocate(layout));
  return std::unique_ptr<DeviceModel>(std::move(model));
}

}  // namespace tern::engine
