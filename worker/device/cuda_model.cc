#include "worker/device/cuda_model.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/codes/topk.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/update/arrays.h"
#include "kernels/update/local_step.h"
#include "kernels/update/local_step_math.h"
#include "kernels/update/optimizer_math.h"
#include "kernels/update/update.h"
#include "worker/device/codecs.h"

namespace tern::device {
namespace cuda {
namespace {

class Model : public CudaModel {
 public:
  explicit Model(const Layout& layout) : layout_(layout) {}
  Status Allocate();

  const std::shared_ptr<Stream>& stream() const override { return stream_; }
  float* weights() const override { return weights_.get(); }
  float* point() const override {
    float* point = LocalArena(Local::kPoint);
    return point != nullptr ? point : weights_.get();
  }
  float* gradients() const override { return gradients_.get(); }

  Status CopyToDevice(const Host& from) override;
  Status CopyToHost(const Host& to) override;
  Status AddDecay(uint64_t begin, uint64_t count, float decay) override;
  Result<double> SquaresOfGradients() override;
  Status ScaleGradients(float factor) override;
  Status RetainGradients(uint64_t round, uint32_t bucket) override;
  Status CopyWeights(Local to) override;
  Status CopyLocalToDevice(Local to, const float* from) override;
  Status CopyLocalToHost(Local from, float* to) override;
  Status MoveLocally(const kernels::LocalStep& step, std::span<const float> decay) override;
  Status Update(uint32_t chunk, const Sums& sums, const kernels::UpdateStep& step,
                std::span<const kernels::TensorRates> rates) override;
  Status ClearMeans(uint32_t bucket) override;
  Status ReadMeans(uint32_t chunk, const Sums& sums) override;
  Result<std::vector<Squares>> SquaresOf(uint32_t bucket) override;
  Status UpdateBucket(uint32_t bucket, const kernels::UpdateStep& step,
                      std::span<const kernels::TensorRates> rates) override;
  Status Average(uint64_t begin, uint64_t count, float one_minus_decay) override;
  Status CheckSums() override;
  Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                              const kernels::NoiseKey& noise) override;
  Result<std::vector<kernels::Stats>> StatsOf(uint64_t round, uint32_t bucket) override;
  Result<uint64_t> CountFrom(uint64_t round, uint32_t bucket,
                             std::span<const float> magnitudes) override;
  Status CopyGradientsToHost(uint64_t round, uint64_t begin, std::span<float> to) override;
  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                       const kernels::NoiseKey& noise) override;
  Status CopyMemoryToHost(uint64_t begin, std::span<const std::span<float>> to) override;
  Status CopyMemoryToDevice(uint64_t begin, std::span<const std::span<float>> from) override;
  Status ResetMemory() override;

 private:
  Status AllocateArenas();
  Status AllocateGroups();
  // Null if the layout does not have this array.
  float* LocalArena(Local local) const {
    const auto found = local_.find(local);
    return found == local_.end() ? nullptr : found->second.get();
  }
  // Pairs of the host's arrays and their device arrays, each of all elements.
  std::vector<std::pair<float*, float*>> HostDevicePairs(const Host& host) const;
  Status UploadRates(std::span<const kernels::TensorRates> rates);
  kernels::ModelArenas Arenas() const;
  Status UpdateBy(const Group& group, const kernels::UpdateStep& step);

  const Layout layout_;
  std::shared_ptr<Stream> stream_;
  std::unique_ptr<Stream> coding_;
  Array<float> weights_, gradients_, average_;
  Array<float> means_;  // means of optimizers that need whole tensors
  std::vector<Array<float>> state_arrays_;
  std::map<Local, Array<float>> local_;
  // Gradients of the retained rounds, by round modulo their number.
  std::vector<Array<float>> retained_gradients_;
  std::unique_ptr<Event> retained_;  // recorded when the last gradients were retained
  Array<float> decay_;               // by part, over all buckets
  Groups buckets_, chunks_;
  Group all_;      // all elements, as one part
  Group tensors_;  // all parts of all buckets
  // Used by the compute thread.
  StatsWorkspace compute_stats_;
  Array<kernels::TensorRates> rates_;
  Array<uint32_t> bad_;
  // Used by the coder.
  StatsWorkspace coder_stats_;
  Array<float> magnitudes_;
  Array<uint32_t> counts_, counts_of_tiles_, counts_done_;
  std::unique_ptr<DeviceCodec> codec_;
};

Status Model::Allocate() {
  TERN_RETURN_IF_ERROR(FindDevice());
  auto stream = Stream::Make(), coding = Stream::Make(Stream::Priority::kHigh);
  if (!stream.ok()) return stream.status();
  if (!coding.ok()) return coding.status();
  stream_ = std::move(*stream);
  coding_ = std::move(*coding);
  TERN_RETURN_IF_ERROR(AllocateArenas());
  TERN_RETURN_IF_ERROR(AllocateGroups());
  std::vector<const float*> gradients;
  for (const Array<float>& kept : retained_gradients_) gradients.push_back(kept.get());
  if (gradients.empty()) gradients.push_back(gradients_.get());
  auto codec = MakeDeviceCodec(
      {layout_, buckets_, chunks_, gradients, coding_.get(), stream_.get(), &coder_stats_});
  if (!codec.ok()) return codec.status();
  codec_ = std::move(*codec);
  return stream_->Wait();
}

Status Model::AllocateArenas() {
  TERN_RETURN_IF_ERROR(weights_.Allocate(layout_.elements));
  TERN_RETURN_IF_ERROR(gradients_.Allocate(layout_.elements));
  if (layout_.average) TERN_RETURN_IF_ERROR(average_.Allocate(layout_.elements));
  state_arrays_.resize(layout_.state_arrays);
  for (Array<float>& slot : state_arrays_) TERN_RETURN_IF_ERROR(slot.Allocate(layout_.elements));
  for (const Local local : layout_.local)
    TERN_RETURN_IF_ERROR(local_[local].Allocate(layout_.elements));
  if (layout_.rounds == 1) return Ok();
  auto event = Event::Make();
  if (!event.ok()) return event.status();
  retained_ = std::move(*event);
  retained_gradients_.resize(layout_.rounds);
  for (Array<float>& kept : retained_gradients_)
    TERN_RETURN_IF_ERROR(kept.Allocate(layout_.elements));
  return Ok();
}

Status Model::AllocateGroups() {
  for (const auto& [groups, parts] :
       {std::pair{&buckets_, &layout_.buckets}, std::pair{&chunks_, &layout_.chunks}}) {
    groups->resize(parts->size());
    for (size_t i = 0; i < parts->size(); ++i)
      TERN_RETURN_IF_ERROR((*groups)[i].Make((*parts)[i], stream_.get()));
  }
  TERN_RETURN_IF_ERROR(all_.Make({{.begin = 0, .count = layout_.elements}}, stream_.get()));
  std::vector<kernels::Part> parts;
  for (const auto& bucket : layout_.buckets)
    parts.insert(parts.end(), bucket.begin(), bucket.end());
  if (!layout_.local.empty()) {
    TERN_RETURN_IF_ERROR(tensors_.Make(parts, stream_.get()));
    TERN_RETURN_IF_ERROR(decay_.Allocate(parts.size()));
  }
  MaxSizes max{all_.host.tiles.size(), 1};
  max.Include(buckets_);
  max.Include(chunks_);
  for (const Status& allocated :
       {coder_stats_.Allocate(max), compute_stats_.Allocate(max), rates_.Allocate(max.parts),
        bad_.Allocate(1), magnitudes_.Allocate(max.parts), counts_.Allocate(max.parts),
        counts_of_tiles_.Allocate(max.tiles), counts_done_.Allocate(max.parts)})
    TERN_RETURN_IF_ERROR(allocated);
  return Ok();
}

std::vector<std::pair<float*, float*>> Model::HostDevicePairs(const Host& host) const {
  std::vector<std::pair<float*, float*>> pairs = {{host.weights, weights_.get()}};
  for (size_t i = 0; i < state_arrays_.size(); ++i)
    pairs.push_back({host.state_arrays[i], state_arrays_[i].get()});
  if (layout_.average) pairs.push_back({host.average, average_.get()});
  return pairs;
}

Status Model::CopyToDevice(const Host& from) {
  for (const auto& [host_array, device_array] : HostDevicePairs(from))
    TERN_RETURN_IF_ERROR(
        stream_->CopyIn(device_array, host_array, layout_.elements * sizeof(float)));
  return stream_->Wait();
}

Status Model::CopyToHost(const Host& to) {
  for (const auto& [host_array, device_array] : HostDevicePairs(to))
    TERN_RETURN_IF_ERROR(
        stream_->CopyOut(host_array, device_array, layout_.elements * sizeof(float)));
  return stream_->Wait();
}

// Launched on the coder's stream, because the coder reads the gradient next and its stream does not
// wait for the compute thread's.
Status Model::AddDecay(uint64_t begin, uint64_t count, float decay) {
  float* g = gradients_.get() + begin;
  return Check(kernels::AddDecayOnDevice(coding_->get(), g, point() + begin, count, decay, g),
               "weight decay");
}

Result<double> Model::SquaresOfGradients() {
  const auto stats = compute_stats_.Compute(gradients_.get(), all_, coding_.get());
  if (!stats.ok()) return stats.status();
  return stats->front().sum_squares;
}

Status Model::ScaleGradients(float factor) {
  return Check(kernels::ScaleOnDevice(coding_->get(), gradients_.get(), layout_.elements, factor),
               "clipping by norm");
}

// On the coder's stream: the copy precedes the round's codes, and the next gradients wait for it.
Status Model::RetainGradients(uint64_t round, uint32_t bucket) {
  const Group& group = buckets_[bucket];
  float* to = retained_gradients_[round % retained_gradients_.size()].get();
  for (size_t i = 0; i < group.size(); ++i) {
    const kernels::Part& part = group.part(i);
    TERN_RETURN_IF_ERROR(coding_->CopyOver(to + part.begin, gradients_.get() + part.begin,
                                           part.count * sizeof(float)));
  }
  TERN_RETURN_IF_ERROR(retained_->Record(*coding_));
  return stream_->WaitFor(*retained_);
}

Status Model::CopyWeights(Local to) {
  return stream_->CopyOver(LocalArena(to), weights_.get(), layout_.elements * sizeof(float));
}

Status Model::CopyLocalToDevice(Local to, const float* from) {
  TERN_RETURN_IF_ERROR(stream_->CopyIn(LocalArena(to), from, layout_.elements * sizeof(float)));
  return stream_->Wait();
}

Status Model::CopyLocalToHost(Local from, float* to) {
  TERN_RETURN_IF_ERROR(stream_->CopyOut(to, LocalArena(from), layout_.elements * sizeof(float)));
  return stream_->Wait();
}

Status Model::MoveLocally(const kernels::LocalStep& step, std::span<const float> decay) {
  std::vector<float> by_part;
  for (const kernels::TiledPart& tiled : tensors_.host.parts)
    by_part.push_back(decay[tiled.part.tensor]);
  TERN_RETURN_IF_ERROR(
      stream_->CopyIn(decay_.get(), by_part.data(), by_part.size() * sizeof(float)));
  const float* before = LocalArena(Local::kBefore);
  const kernels::LocalArenas arenas{.weights = weights_.get(),
                                    .gradients = gradients_.get(),
                                    .reference = before != nullptr ? before : point(),
                                    .velocity = LocalArena(Local::kVelocity),
                                    .mean_square = LocalArena(Local::kMeanSquare),
                                    .point = point()};
  return Check(
      kernels::MoveLocallyOnDevice(stream_->get(), tensors_.tiling(), step, decay_.get(), arenas),
      "a local update");
}

Status Model::UploadRates(std::span<const kernels::TensorRates> rates) {
  return stream_->CopyIn(rates_.get(), rates.data(), rates.size_bytes());
}

kernels::ModelArenas Model::Arenas() const {
  kernels::ModelArenas arenas{weights_.get()};
  if (!state_arrays_.empty()) arenas.first = state_arrays_[0].get();
  if (state_arrays_.size() > 1) arenas.second = state_arrays_[1].get();
  return arenas;
}

Status Model::UpdateBy(const Group& group, const kernels::UpdateStep& step) {
  return Check(kernels::UpdateOnDevice(stream_->get(), group.tiling(), means_.get(), step,
                                       rates_.get(), Arenas()),
               "an update of the weights");
}

Status Model::Update(uint32_t chunk, const Sums& sums, const kernels::UpdateStep& step,
                     std::span<const kernels::TensorRates> rates) {
  TERN_RETURN_IF_ERROR(UploadRates(rates));
  if (codec_->UpdatesInOnePass())
    return codec_->Update(chunk, sums, {step, rates_.get(), Arenas()}, bad_.get());
  TERN_RETURN_IF_ERROR(ReadMeans(chunk, sums));
  return UpdateBy(chunks_[chunk], step);
}

Status Model::ClearMeans(uint32_t bucket) {
  if (means_.get() == nullptr) TERN_RETURN_IF_ERROR(means_.Allocate(layout_.elements));
  for (size_t i = 0; i < buckets_[bucket].size(); ++i) {
    const kernels::Part& part = buckets_[bucket].part(i);
    TERN_RETURN_IF_ERROR(stream_->Zero(means_.get() + part.begin, part.count * sizeof(float)));
  }
  return Ok();
}

Status Model::ReadMeans(uint32_t chunk, const Sums& sums) {
  if (means_.get() == nullptr) TERN_RETURN_IF_ERROR(means_.Allocate(layout_.elements));
  return codec_->Read(chunk, sums, means_.get(), bad_.get());
}

Result<std::vector<DeviceModel::Squares>> Model::SquaresOf(uint32_t bucket) {
  const auto weights = compute_stats_.Compute(weights_.get(), buckets_[bucket], stream_.get());
  if (!weights.ok()) return weights.status();
  const auto means = compute_stats_.Compute(means_.get(), buckets_[bucket], stream_.get());
  if (!means.ok()) return means.status();
  std::vector<Squares> squares;
  for (size_t i = 0; i < weights->size(); ++i)
    squares.push_back({(*weights)[i].sum_squares, (*means)[i].sum_squares});
  return squares;
}

Status Model::UpdateBucket(uint32_t bucket, const kernels::UpdateStep& step,
                           std::span<const kernels::TensorRates> rates) {
  TERN_RETURN_IF_ERROR(UploadRates(rates));
  return UpdateBy(buckets_[bucket], step);
}

Status Model::Average(uint64_t begin, uint64_t count, float one_minus_decay) {
  return Check(kernels::EmaUpdateOnDevice(stream_->get(), average_.get() + begin,
                                          weights_.get() + begin, count, one_minus_decay),
               "the moving average");
}

Status Model::CheckSums() {
  uint32_t bad = 0;
  TERN_RETURN_IF_ERROR(stream_->CopyOut(&bad, bad_.get(), sizeof bad));
  TERN_RETURN_IF_ERROR(stream_->Wait());
  if (bad == 0) return Ok();
  return Status(Code::kMismatch,
                "sums of codes arrived that the codes of their contributors cannot add up to");
}

Result<std::vector<kernels::Stats>> Model::Prepare(uint32_t bucket,
                                                   const kernels::NoiseKey& noise) {
  return codec_->Prepare(bucket, noise);
}

Result<std::vector<kernels::Stats>> Model::StatsOf(uint64_t round, uint32_t bucket) {
  return coder_stats_.Compute(codec_->CodedArena(round), buckets_[bucket], coding_.get());
}

Result<uint64_t> Model::CountFrom(uint64_t round, uint32_t bucket,
                                  std::span<const float> magnitudes) {
  TERN_RETURN_IF_ERROR(
      coding_->CopyIn(magnitudes_.get(), magnitudes.data(), magnitudes.size_bytes()));
  TERN_RETURN_IF_ERROR(
      Check(kernels::CountFromOnDevice(coding_->get(), codec_->GradientsOf(round),
                                       buckets_[bucket].tiling(), magnitudes_.get(),
                                       counts_of_tiles_.get(), counts_done_.get(), counts_.get()),
            "a count of gradients"));
  std::vector<uint32_t> counts(magnitudes.size());
  TERN_RETURN_IF_ERROR(
      coding_->CopyOut(counts.data(), counts_.get(), counts.size() * sizeof(uint32_t)));
  TERN_RETURN_IF_ERROR(coding_->Wait());
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

Status Model::CopyGradientsToHost(uint64_t round, uint64_t begin, std::span<float> to) {
  TERN_RETURN_IF_ERROR(
      coding_->CopyOut(to.data(), codec_->GradientsOf(round) + begin, to.size_bytes()));
  return coding_->Wait();
}

Result<Bytes> Model::Encode(uint32_t chunk, std::span<const kernels::TernaryScale> scales,
                            const kernels::NoiseKey& noise) {
  return codec_->Encode(chunk, scales, noise);
}

Status Model::CopyMemoryToHost(uint64_t begin, std::span<const std::span<float>> to) {
  const std::vector<float*> kept = codec_->MemoryArenas();
  for (size_t i = 0; i < to.size(); ++i)
    TERN_RETURN_IF_ERROR(coding_->CopyOut(to[i].data(), kept[i] + begin, to[i].size_bytes()));
  return coding_->Wait();
}

Status Model::CopyMemoryToDevice(uint64_t begin, std::span<const std::span<float>> from) {
  const std::vector<float*> kept = codec_->MemoryArenas();
  for (size_t i = 0; i < from.size(); ++i)
    TERN_RETURN_IF_ERROR(coding_->CopyIn(kept[i] + begin, from[i].data(), from[i].size_bytes()));
  return coding_->Wait();
}

Status Model::ResetMemory() {
  for (float* arena : codec_->MemoryArenas())
    TERN_RETURN_IF_ERROR(coding_->Zero(arena, layout_.elements * sizeof(float)));
  return coding_->Wait();
}

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<DeviceModel>> DeviceModel::Make(const Layout& layout) {
  auto model = std::make_unique<cuda::Model>(layout);
  TERN_RETURN_IF_ERROR(model->Allocate());
  return std::unique_ptr<DeviceModel>(std::move(model));
}

}  // namespace tern::device
