// The codec topk on a GPU: deep gradient compression, which sends only the elements whose
// accumulated gradient is at least as large as a threshold in magnitude (common/codec/dgc_memory.h,
// topk_threshold.h). The device accumulates gradients, and counts, selects and encodes elements.
// The host chooses the thresholds, for all tensors of a bucket (a group of tensors) at once. One
// call encodes a chunk, a piece of a bucket; both consist of parts, which are ranges of one tensor.
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

class TopKCodec : public DeviceCodec {
 public:
  explicit TopKCodec(const Context& context)
      : DeviceCodec(context),
        options_(context.layout.options.topk),
        chooser_(options_),
        thresholds_(context.layout.columns.size()) {}

  Status Allocate() {
    TERN_RETURN_IF_ERROR(AllocateBuffers());
    const uint64_t num_elements = context_.layout.elements;
    TERN_RETURN_IF_ERROR(accumulated_.Allocate(num_elements));
    if (options_.momentum > 0) TERN_RETURN_IF_ERROR(momentum_.Allocate(num_elements));
    MaxSizes max_sizes;
    max_sizes.Include(context_.buckets);
    max_sizes.Include(context_.chunks);
    for (const Status& allocate_status :
         {sample_tiles_.Allocate(max_sizes.tiles), sample_parts_.Allocate(max_sizes.parts),
          strides_.Allocate(max_sizes.parts), ks_.Allocate(max_sizes.parts),
          histograms_.Allocate(max_sizes.parts * kernels::kSelectBins),
          select_done_.Allocate(max_sizes.parts), upper_bits_.Allocate(max_sizes.parts),
          remaining_.Allocate(max_sizes.parts), device_thresholds_.Allocate(max_sizes.parts),
          counts_.Allocate(max_sizes.parts), count_done_.Allocate(max_sizes.parts),
          counts_of_tiles_.Allocate(max_sizes.tiles),
          masks_.Allocate(max_sizes.tiles * kernels::kTile / 32),
          sent_counts_.Allocate(max_sizes.tiles), bodies_.Allocate(max_sizes.tiles),
          read_bodies_.Allocate(max_sizes.tiles), chunk_done_.Allocate(1), size_.Allocate(1)})
      TERN_RETURN_IF_ERROR(allocate_status);
    return Ok();
  }

  Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                              const kernels::NoiseKey& noise) override {
    const Group& group = context_.buckets[bucket];
    TERN_RETURN_IF_ERROR(AccumulateGradients(group, GradientsOf(noise.round)));
    auto stats = context_.stats->Compute(accumulated_.get(), group, context_.coder_stream);
    if (!stats.ok()) return stats.status();
    for (const kernels::Stats& part_stats : *stats) {
      if (!part_stats.is_finite) return stats;  // The caller checks this, and does not encode.
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
        CheckCuda(kernels::SparseOnDevice(
                      context_.coder_stream->get(), accumulated_.get(), group.tiling(),
                      device_thresholds_.get(), memory,
                      {masks_.get(), sent_counts_.get(), bodies_.get(), chunk_done_.get()},
                      code_.get(), size_.get()),
                  "codes of few elements"));
    return CopyCodeOfSize(size_.get());
  }
  const float* ArenaToCheck(uint64_t) const override { return accumulated_.get(); }
  std::vector<float*> MemoryArenas() const override {
    std::vector<float*> arenas = {accumulated_.get()};
    if (momentum_.get() != nullptr) arenas.push_back(momentum_.get());
    return arenas;
  }

  Status DecodeMeans(uint32_t chunk, const DeviceModel::Sums& sums, float* means,
                     uint32_t* bad_count) override {
    TERN_RETURN_IF_ERROR(UploadSumsWithRanges(chunk, sums));
    return CheckCuda(kernels::ReadSparseOnDevice(
                         context_.compute_stream->get(), context_.chunks[chunk].tiling(),
                         sums_.get(), ranges_.get(), read_bodies_.get(), means, bad_count),
                     "means of few elements");
  }

 private:
  // The choice of a part's threshold: which sample of the part's elements the first estimate uses,
  // and the state of the search.
  struct Choice {
    TopKThreshold::SamplePlan sample_plan;
    float threshold = 0;
    // Whether the next step is to count the elements of at least `threshold` in magnitude, and to
    // adapt the threshold.
    bool needs_count = false;
    // Whether the next step is to select the threshold among all elements of the part, not only
    // those of the sample.
    bool needs_exact_search = false;
  };
  using Choices = std::vector<Choice>;

  // Adds the gradients to the accumulated gradients, with momentum correction and clipping.
  Status AccumulateGradients(const Group& group, const float* gradients) {
    const kernels::DgcStep step{static_cast<float>(options_.momentum), options_.nesterov,
                                options_.clip_norm};
    const kernels::DeviceStats* stats = nullptr;
    if (options_.clip_norm > 0) {
      const auto launched_stats = context_.stats->Launch(gradients, group, context_.coder_stream);
      if (!launched_stats.ok()) return launched_stats.status();
      stats = *launched_stats;
    }
    return CheckCuda(
        kernels::AddToDgcOnDevice(context_.coder_stream->get(), gradients, group.tiling(), step,
                                  stats, momentum_.get(), accumulated_.get()),
        "deep gradient compression's memory");
  }

  // Chooses the thresholds of the group's tensors and stores them in thresholds_.
  Status ChooseThresholds(const Group& group, const kernels::NoiseKey& noise) {
    Choices choices(group.size());
    for (size_t p = 0; p < choices.size(); ++p) {
      kernels::NoiseKey part_noise = noise;
      part_noise.tensor = group.part(p).tensor;
      choices[p].sample_plan = chooser_.PlanFor(group.part(p).count, part_noise);
      const bool sends_all = choices[p].sample_plan.num_wanted >= group.part(p).count;
      choices[p].needs_count = !sends_all && !choices[p].sample_plan.is_exact;
      if (sends_all) choices[p].sample_plan.k = 0;
    }
    TERN_RETURN_IF_ERROR(FindThresholdsInSamples(group, &choices));
    for (int i = 0; i <= TopKThreshold::kMaxAdaptations && AnyNeedsCount(choices); ++i)
      TERN_RETURN_IF_ERROR(AdaptThresholds(group, i, &choices));
    TERN_RETURN_IF_ERROR(FindThresholdsExactly(group, &choices));
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
  // element of part p of the tiling; if ks[p] is 0, does not change that threshold.
  Status FindMagnitudes(const kernels::DeviceTiling& tiling, const std::vector<uint64_t>& strides,
                        const std::vector<uint32_t>& ks, Choices* choices) {
    Stream& stream = *context_.coder_stream;
    TERN_RETURN_IF_ERROR(
        stream.CopyInNow(strides_.get(), strides.data(), strides.size() * sizeof(uint64_t)));
    TERN_RETURN_IF_ERROR(stream.CopyInNow(ks_.get(), ks.data(), ks.size() * sizeof(uint32_t)));
    TERN_RETURN_IF_ERROR(
        CheckCuda(kernels::KthMagnitudeOnDevice(
                      stream.get(), accumulated_.get(), tiling, strides_.get(), ks_.get(),
                      {histograms_.get(), select_done_.get(), upper_bits_.get(), remaining_.get()},
                      device_thresholds_.get()),
                  "the choice of a threshold"));
    std::vector<float> magnitudes(choices->size());
    TERN_RETURN_IF_ERROR(stream.CopyOut(magnitudes.data(), device_thresholds_.get(),
                                        magnitudes.size() * sizeof(float)));
    TERN_RETURN_IF_ERROR(stream.Wait());
    for (size_t p = 0; p < magnitudes.size(); ++p) {
      if (ks[p] != 0) (*choices)[p].threshold = magnitudes[p];
    }
    return Ok();
  }

  // Sets the threshold of each part to the k-th largest magnitude of the part's sample, where k is
  // that of the sample plan; if k is 0, does not change that threshold.
  Status FindThresholdsInSamples(const Group& group, Choices* choices) {
    std::vector<kernels::Part> samples;
    std::vector<uint64_t> strides;
    std::vector<uint32_t> ks;
    for (size_t p = 0; p < group.size(); ++p) {
      const TopKThreshold::SamplePlan& sample_plan = (*choices)[p].sample_plan;
      samples.push_back(
          {.begin = group.part(p).begin + sample_plan.first, .count = sample_plan.num_samples});
      strides.push_back(sample_plan.stride);
      ks.push_back(static_cast<uint32_t>(sample_plan.k));
    }
    const kernels::Tiling tiling = kernels::CutIntoTiles(samples);
    Stream& stream = *context_.coder_stream;
    TERN_RETURN_IF_ERROR(stream.CopyInNow(sample_tiles_.get(), tiling.tiles.data(),
                                          tiling.tiles.size() * sizeof(kernels::Tile)));
    TERN_RETURN_IF_ERROR(stream.CopyInNow(sample_parts_.get(), tiling.parts.data(),
                                          tiling.parts.size() * sizeof(kernels::TiledPart)));
    return FindMagnitudes({sample_tiles_.get(), sample_parts_.get(), nullptr,
                           static_cast<uint32_t>(tiling.tiles.size())},
                          strides, ks, choices);
  }

  // For each part with needs_exact_search, sets the threshold to the n-th largest magnitude of all
  // elements of the part, where n is the wanted number of elements to send.
  Status FindThresholdsExactly(const Group& group, Choices* choices) {
    std::vector<uint32_t> ks;
    bool any_needs_exact_search = false;
    for (const Choice& choice : *choices) {
      ks.push_back(choice.needs_exact_search ? static_cast<uint32_t>(choice.sample_plan.num_wanted)
                                             : 0);
      any_needs_exact_search = any_needs_exact_search || choice.needs_exact_search;
    }
    if (!any_needs_exact_search) return Ok();
    return FindMagnitudes(group.tiling(), std::vector<uint64_t>(group.size(), 1), ks, choices);
  }

  // For each part with needs_count, counts the elements that its threshold would send, and adapts
  // the threshold. `num_adaptations`: how often it was adapted before.
  Status AdaptThresholds(const Group& group, int num_adaptations, Choices* choices) {
    std::vector<float> thresholds;
    for (const Choice& choice : *choices)
      thresholds.push_back(choice.needs_count ? choice.threshold : -1);
    TERN_RETURN_IF_ERROR(UploadThresholds(thresholds));
    TERN_RETURN_IF_ERROR(CheckCuda(
        kernels::CountAtLeastOnDevice(context_.coder_stream->get(), accumulated_.get(),
                                      group.tiling(), device_thresholds_.get(),
                                      counts_of_tiles_.get(), count_done_.get(), counts_.get()),
        "a count of what is sent"));
    std::vector<uint32_t> counts(choices->size());
    TERN_RETURN_IF_ERROR(context_.coder_stream->CopyOut(counts.data(), counts_.get(),
                                                        counts.size() * sizeof(uint32_t)));
    TERN_RETURN_IF_ERROR(context_.coder_stream->Wait());
    for (size_t p = 0; p < choices->size(); ++p) {
      Choice& choice = (*choices)[p];
      if (!choice.needs_count) continue;
      const auto next_step =
          chooser_.Adapt(choice.sample_plan, counts[p], num_adaptations, &choice.threshold);
      choice.needs_count = next_step == TopKThreshold::NextStep::kCount;
      choice.needs_exact_search = next_step == TopKThreshold::NextStep::kExact;
    }
    return Ok();
  }

  Status UploadThresholds(const std::vector<float>& thresholds) {
    return context_.coder_stream->CopyInNow(device_thresholds_.get(), thresholds.data(),
                                            thresholds.size() * sizeof(float));
  }

  const codec::Options::TopK options_;
  const TopKThreshold chooser_;
  std::vector<float> thresholds_;  // For each tensor, the threshold that was last chosen.
  // The accumulated gradients, their momentum, and the thresholds that a kernel reads or writes.
  // size_ is the size of a chunk's code. The other arrays are workspace of the kernels.
  Array<float> accumulated_, momentum_, device_thresholds_;
  Array<kernels::Tile> sample_tiles_;
  Array<kernels::TiledPart> sample_parts_;
  Array<uint64_t> strides_, bodies_, read_bodies_, size_;
  Array<uint32_t> ks_, histograms_, select_done_, upper_bits_, remaining_, counts_, count_done_,
      counts_of_tiles_;
  Array<uint32_t> masks_, sent_counts_, chunk_done_;
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> MakeTopKCodes(const DeviceCodec::Context& context) {
  return MakeCodecOf<TopKCodec>(context);
}

}  // namespace tern::device
