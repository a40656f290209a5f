// The codec topk on a GPU: deep gradient compression, which sends only the elements whose
// accumulated gradient has at least a threshold's magnitude (common/codec/dgc_memory.h,
// topk_threshold.h). The device accumulates gradients, and counts, selects and encodes elements.
// The host chooses the thresholds, for all tensors of a bucket at once.
#include "common/codec/topk_threshold.h"
#include "kernels/codes/sparse.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/codes/topk.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "worker/device/codecs.h"

namespace tern::device {
namespace {

using codec::TopKThreshold;

class TopKCodes : public DeviceCodec {
 public:
  explicit TopKCodes(const Context& context)
      : DeviceCodec(context),
        options_(context.layout.options.topk),
        chooser_(options_),
        thresholds_(context.layout.columns.size()) {}

  Status Allocate() {
    TERN_RETURN_IF_ERROR(AllocateBytes());
    const uint64_t elements = context_.layout.elements;
    TERN_RETURN_IF_ERROR(accumulated_.Allocate(elements));
    if (options_.momentum > 0) TERN_RETURN_IF_ERROR(momentum_.Allocate(elements));
    MaxSizes max;
    max.Include(context_.buckets);
    max.Include(context_.chunks);
    for (const Status& allocated :
         {sample_tiles_.Allocate(max.tiles), sample_parts_.Allocate(max.parts),
          strides_.Allocate(max.parts), ks_.Allocate(max.parts),
          histograms_.Allocate(max.parts * kernels::kSelectBins), select_done_.Allocate(max.parts),
          upper_bits_.Allocate(max.parts), remaining_.Allocate(max.parts),
          device_thresholds_.Allocate(max.parts), counts_.Allocate(max.parts),
          count_done_.Allocate(max.parts), partial_.Allocate(max.tiles),
          masks_.Allocate(max.tiles * kernels::kTile / 32), sent_.Allocate(max.tiles),
          bodies_.Allocate(max.tiles), read_bodies_.Allocate(max.tiles), chunk_done_.Allocate(1),
          size_.Allocate(1)})
      TERN_RETURN_IF_ERROR(allocated);
    return Ok();
  }

  Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                              const kernels::NoiseKey& noise) override {
    const Group& group = context_.buckets[bucket];
    TERN_RETURN_IF_ERROR(Accumulate(group, GradientsOf(noise.round)));
    auto stats = context_.stats->Compute(accumulated_.get(), group, context_.coding);
    if (!stats.ok()) return stats.status();
    for (const kernels::Stats& part_stats : *stats) {
      if (!part_stats.finite) return stats;  // The caller sees this too, and does not encode.
    }
    TERN_RETURN_IF_ERROR(ChooseThresholds(group, noise));
    return stats;
  }

  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale>,
                       const kernels::NoiseKey&) override {
    const Group& group = context_.chunks[chunk];
    std::vector<float> thresholds;
    for (size_t i = 0; i < group.size(); ++i)
      thresholds.push_back(thresholds_[group.part(i).tensor]);
    TERN_RETURN_IF_ERROR(UploadThresholds(thresholds));
    const kernels::SparseMemory memory{accumulated_.get(),
                                       options_.masking ? momentum_.get() : nullptr};
    TERN_RETURN_IF_ERROR(
        Check(kernels::SparseOnDevice(context_.coding->get(), accumulated_.get(), group.tiling(),
                                      device_thresholds_.get(), memory,
                                      {masks_.get(), sent_.get(), bodies_.get(), chunk_done_.get()},
                                      code_.get(), size_.get()),
              "codes of few elements"));
    return CopyCodeOfSize(size_.get());
  }
  const float* CodedArena(uint64_t) const override { return accumulated_.get(); }
  std::vector<float*> MemoryArenas() const override {
    std::vector<float*> arenas = {accumulated_.get()};
    if (momentum_.get() != nullptr) arenas.push_back(momentum_.get());
    return arenas;
  }

  Status Read(uint32_t chunk, const DeviceModel::Sums& sums, float* means, uint32_t* bad) override {
    TERN_RETURN_IF_ERROR(UploadSumsWithRanges(chunk, sums));
    return Check(
        kernels::ReadSparseOnDevice(context_.compute->get(), context_.chunks[chunk].tiling(),
                                    sums_.get(), ranges_.get(), read_bodies_.get(), means, bad),
        "means of few elements");
  }

 private:
  // The choice of a part's threshold: which sample to take, and the state of the search.
  struct Choice {
    TopKThreshold::SamplePlan plan;
    float threshold = 0;
    // The next step is to count the elements of at least `threshold`, and to adapt it.
    bool needs_count = false;
    // The next step is to select the threshold among all elements of the part, not only the sample.
    bool needs_exact = false;
  };
  using Choices = std::vector<Choice>;

  // Adds the gradients to the accumulated gradients, with momentum correction and clipping.
  Status Accumulate(const Group& group, const float* gradients) {
    const kernels::DgcStep step{static_cast<float>(options_.momentum), options_.nesterov,
                                options_.clip_norm};
    const kernels::DeviceStats* stats = nullptr;
    if (options_.clip_norm > 0) {
      const auto launched = context_.stats->Launch(gradients, group, context_.coding);
      if (!launched.ok()) return launched.status();
      stats = *launched;
    }
    return Check(kernels::AddToDgcOnDevice(context_.coding->get(), gradients, group.tiling(), step,
                                           stats, momentum_.get(), accumulated_.get()),
                 "deep gradient compression's memory");
  }

  // Chooses the thresholds of the group's tensors and stores them in thresholds_.
  Status ChooseThresholds(const Group& group, const kernels::NoiseKey& noise) {
    Choices choices(group.size());
    for (size_t p = 0; p < choices.size(); ++p) {
      kernels::NoiseKey key = noise;
      key.tensor = group.part(p).tensor;
      choices[p].plan = chooser_.PlanFor(group.part(p).count, key);
      const bool sends_all = choices[p].plan.wanted >= group.part(p).count;
      choices[p].needs_count = !sends_all && !choices[p].plan.exact;
      if (sends_all) choices[p].plan.k = 0;
    }
    TERN_RETURN_IF_ERROR(FindInSamples(group, &choices));
    for (int i = 0; i < TopKThreshold::kAdaptations && AnyNeedsCount(choices); ++i)
      TERN_RETURN_IF_ERROR(Adapt(group, &choices));
    TERN_RETURN_IF_ERROR(FindExactly(group, &choices));
    for (size_t p = 0; p < choices.size(); ++p)
      thresholds_[group.part(p).tensor] = choices[p].threshold;
    return Ok();
  }

  static bool AnyNeedsCount(const Choices& choices) {
    for (const Choice& choice : choices) {
      if (choice.needs_count) return true;
    }
    return false;
  }

  // Sets the threshold of each part p to the ks[p]-th largest magnitude among every strides[p]-th
  // element of part p of the tiling. Does not change it where ks[p] is 0.
  Status FindMagnitudes(const kernels::DeviceTiling& tiling, const std::vector<uint64_t>& strides,
                        const std::vector<uint32_t>& ks, Choices* choices) {
    Stream& stream = *context_.coding;
    TERN_RETURN_IF_ERROR(
        stream.CopyIn(strides_.get(), strides.data(), strides.size() * sizeof(uint64_t)));
    TERN_RETURN_IF_ERROR(stream.CopyIn(ks_.get(), ks.data(), ks.size() * sizeof(uint32_t)));
    TERN_RETURN_IF_ERROR(
        Check(kernels::KthMagnitudeOnDevice(
                  stream.get(), accumulated_.get(), tiling, strides_.get(), ks_.get(),
                  {histograms_.get(), select_done_.get(), upper_bits_.get(), remaining_.get()},
                  device_thresholds_.get()),
              "the choice of a threshold"));
    std::vector<float> found(choices->size());
    TERN_RETURN_IF_ERROR(
        stream.CopyOut(found.data(), device_thresholds_.get(), found.size() * sizeof(float)));
    TERN_RETURN_IF_ERROR(stream.Wait());
    for (size_t p = 0; p < found.size(); ++p) {
      if (ks[p] != 0) (*choices)[p].threshold = found[p];
    }
    return Ok();
  }

  // Sets each threshold to the k-th largest magnitude of the part's sample.
  Status FindInSamples(const Group& group, Choices* choices) {
    std::vector<kernels::Part> samples;
    std::vector<uint64_t> strides;
    std::vector<uint32_t> ks;
    for (size_t p = 0; p < group.size(); ++p) {
      const TopKThreshold::SamplePlan& plan = (*choices)[p].plan;
      samples.push_back({.begin = group.part(p).begin + plan.first, .count = plan.samples});
      strides.push_back(plan.stride);
      ks.push_back(static_cast<uint32_t>(plan.k));
    }
    const kernels::Tiling tiling = kernels::CutIntoTiles(samples);
    Stream& stream = *context_.coding;
    TERN_RETURN_IF_ERROR(stream.CopyIn(sample_tiles_.get(), tiling.tiles.data(),
                                       tiling.tiles.size() * sizeof(kernels::Tile)));
    TERN_RETURN_IF_ERROR(stream.CopyIn(sample_parts_.get(), tiling.parts.data(),
                                       tiling.parts.size() * sizeof(kernels::TiledPart)));
    return FindMagnitudes({sample_tiles_.get(), sample_parts_.get(), nullptr,
                           static_cast<uint32_t>(tiling.tiles.size())},
                          strides, ks, choices);
  }

  // Selects among all elements the thresholds with needs_exact.
  Status FindExactly(const Group& group, Choices* choices) {
    std::vector<uint32_t> ks;
    bool any_needs_exact = false;
    for (const Choice& choice : *choices) {
      ks.push_back(choice.needs_exact ? static_cast<uint32_t>(choice.plan.wanted) : 0);
      any_needs_exact = any_needs_exact || choice.needs_exact;
    }
    if (!any_needs_exact) return Ok();
    return FindMagnitudes(group.tiling(), std::vector<uint64_t>(group.size(), 1), ks, choices);
  }

  // Counts how many elements each threshold with needs_count would send, and adapts it.
  Status Adapt(const Group& group, Choices* choices) {
    std::vector<float> thresholds;
    for (const Choice& choice : *choices)
      thresholds.push_back(choice.needs_count ? choice.threshold : -1);
    TERN_RETURN_IF_ERROR(UploadThresholds(thresholds));
    TERN_RETURN_IF_ERROR(
        Check(kernels::CountFromOnDevice(context_.coding->get(), accumulated_.get(), group.tiling(),
                                         device_thresholds_.get(), partial_.get(),
                                         count_done_.get(), counts_.get()),
              "a count of what is sent"));
    std::vector<uint32_t> counts(choices->size());
    TERN_RETURN_IF_ERROR(
        context_.coding->CopyOut(counts.data(), counts_.get(), counts.size() * sizeof(uint32_t)));
    TERN_RETURN_IF_ERROR(context_.coding->Wait());
    for (size_t p = 0; p < choices->size(); ++p) {
      Choice& choice = (*choices)[p];
      if (!choice.needs_count) continue;
      const auto next = chooser_.Adapt(choice.plan, counts[p], &choice.threshold);
      choice.needs_count = next == TopKThreshold::Next::kCount;
      choice.needs_exact = next == TopKThreshold::Next::kExact;
    }
    return Ok();
  }

  Status UploadThresholds(const std::vector<float>& thresholds) {
    return context_.coding->CopyIn(device_thresholds_.get(), thresholds.data(),
                                   thresholds.size() * sizeof(float));
  }

  const codec::Options::TopK options_;
  const TopKThreshold chooser_;
  std::vector<float> thresholds_;  // For each tensor the threshold that was last chosen.
  // The accumulated gradients, their momentum, and on the device the thresholds of a call. The
  // arrays below are workspace of the kernels.
  Array<float> accumulated_, momentum_, device_thresholds_;
  Array<kernels::Tile> sample_tiles_;
  Array<kernels::TiledPart> sample_parts_;
  Array<uint64_t> strides_, bodies_, read_bodies_, size_;
  Array<uint32_t> ks_, histograms_, select_done_, upper_bits_, remaining_, counts_, count_done_,
      partial_;
  Array<uint32_t> masks_, sent_, chunk_done_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> MakeTopKCodes(const DeviceCodec::Context& context) {
  return MakeCodes<TopKCodes>(context);
}

}  // namespace tern::device
