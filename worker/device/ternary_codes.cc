// Ternary codes (kernels/codes/ternary.h), and sums that go into the weights in one pass.
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/device/tiling.h"
#include "kernels/update/update.h"
#include "worker/device/codecs.h"

namespace tern::device {
namespace {

class TernaryCodes : public DeviceCodec {
 public:
  using DeviceCodec::DeviceCodec;

  Status Allocate() {
    TERN_RETURN_IF_ERROR(AllocateBytes());
    Most most;
    most.See(work_.chunks);
    const size_t tile_bytes = most.tiles * kernels::kTile / 8;
    for (const Status& allocated :
         {ones_.Allocate(most.tiles), sign_bit_.Allocate(most.tiles), chunk_done_.Allocate(1),
          mask_begin_.Allocate(most.parts), size_.Allocate(1), masks_.Allocate(tile_bytes),
          signs_.Allocate(tile_bytes), scales_.Allocate(most.parts),
          sum_places_.Allocate(most.parts)})
      TERN_RETURN_IF_ERROR(allocated);
    return Ok();
  }

  Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                              const kernels::NoiseKey& noise) override {
    return work_.stats->Compute(GradientsOf(noise.round), work_.buckets[bucket], work_.coding);
  }

  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                       const kernels::NoiseKey& noise) override {
    TERN_RETURN_IF_ERROR(work_.coding->CopyIn(scales_.get(), scales.data(), scales.size_bytes()));
    const kernels::TernaryRoom room{masks_.get(),    signs_.get(),      ones_.get(),
                                    sign_bit_.get(), mask_begin_.get(), chunk_done_.get()};
    TERN_RETURN_IF_ERROR(
        Check(kernels::TernarizeOnDevice(work_.coding->get(), GradientsOf(noise.round),
                                         work_.chunks[chunk].tiling(), scales_.get(), noise, room,
                                         code_.get(), size_.get()),
              "ternary codes"));
    uint64_t most = 0;
    for (const kernels::TiledPart& tiled : work_.chunks[chunk].host.parts)
      most += work_.layout.codec->MaxEncodedSize(SegmentOf(tiled.part));
    return TakeWithin(most, size_.get());
  }

  Status Read(uint32_t chunk, const DeviceModel::Sums& sums, float* means, uint32_t* bad) override {
    TERN_RETURN_IF_ERROR(BringUpWithScalers(chunk, sums));
    return Check(
        kernels::DecodeOnDevice(work_.compute->get(), work_.chunks[chunk].tiling(), sums_.get(),
                                sum_places_.get(), sums.contributors, means, bad),
        "means of ternary codes");
  }

  bool UpdatesAtOnce() const override { return true; }
  Status Update(uint32_t chunk, const DeviceModel::Sums& sums, const Step& step,
                uint32_t* bad) override {
    TERN_RETURN_IF_ERROR(BringUpWithScalers(chunk, sums));
    return Check(
        kernels::DecodeAndUpdateOnDevice(work_.compute->get(), work_.chunks[chunk].tiling(),
                                         sums_.get(), sum_places_.get(), sums.contributors,
                                         step.numbers, step.rates, step.model, bad),
        "an update of the weights");
  }

 private:
  Status BringUpWithScalers(uint32_t chunk, const DeviceModel::Sums& sums) {
    const auto places = PlacesOf(chunk, sums);
    if (!places.ok()) return places.status();
    std::vector<kernels::SumPlace> scaled;
    for (size_t i = 0; i < places->size(); ++i)
      scaled.push_back({(*places)[i].begin, sums.scalers[i]});
    TERN_RETURN_IF_ERROR(BringUp(sums));
    return work_.compute->CopyIn(sum_places_.get(), scaled.data(),
                                 scaled.size() * sizeof(kernels::SumPlace));
  }

  Array<uint32_t> ones_, sign_bit_, chunk_done_;
  Array<uint64_t> mask_begin_, size_;
  Array<uint8_t> masks_, signs_;
  Array<kernels::TernaryScale> scales_;
  Array<kernels::SumPlace> sum_places_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> MakeTernaryCodes(const DeviceCodec::Work& work) {
  return MakeCodes<TernaryCodes>(work);
}

}  // namespace tern::device
