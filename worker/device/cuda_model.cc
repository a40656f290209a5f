#include "worker/device/cuda_model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/codes/stats.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/update/arrays.h"
#include "kernels/update/local_step.h"
#include "kernels/update/local_step_math.h"
#include "kernels/update/optimizer_math.h"
#include "kernels/update/update.h"
#include "worker/device/cuda_codes.h"
#include "worker/device/model_memory.h"
#include "worker/device/sum_memory.h"

namespace tern::device {
namespace cuda {
namespace {

// Rates that seldom change, in device memory.
class KnownRates {
 public:
  // Copies the rates to the device if they are not there yet. Returns where they are there.
  Result<const kernels::TensorRates*> OnDevice(std::span<const kernels::TensorRates> rates,
                                               Stream* stream) {
    if (!std::equal(rates.begin(), rates.end(), host_.begin(), host_.end())) {
      if (host_.empty()) TERN_RETURN_IF_ERROR(device_.Allocate(rates.size()));
      host_.assign(rates.begin(), rates.end());
      TERN_RETURN_IF_ERROR(stream->CopyInNow(device_.get(), host_.data(), rates.size_bytes()));
    }
    return static_cast<const kernels::TensorRates*>(device_.get());
  }

 private:
  std::vector<kernels::TensorRates> host_;  // What was last copied to the device.
  Array<kernels::TensorRates> device_;
};

// The most scalers that may travel before the encoded sum of a chunk: one per part.
size_t MaxLeadingScalers(const DeviceModel::Layout& layout) {
  size_t max_scalers = 0;
  for (const auto& chunk : layout.chunks) max_scalers = std::max(max_scalers, chunk.size());
  return max_scalers;
}

Status UpdateFromMeans(const Stream& stream, const Group& group, const float* means,
                       const kernels::UpdateStep& step, const kernels::TensorRates* rates,
                       const kernels::ModelArenas& arenas) {
  return CheckCuda(
      kernels::UpdateOnDevice(stream.get(), group.tiling(), means, step, rates, arenas),
      "an update of the weights");
}

// Counts the invalid sums of a stream.
class BadSums {
 public:
  Status Allocate() {
    auto copied_count = AllocatePinned(sizeof(uint32_t));
    if (!copied_count.ok()) return copied_count.status();
    copied_count_ = std::move(*copied_count);
    auto copied = Event::Make();
    if (!copied.ok()) return copied.status();
    copied_ = std::move(*copied);
    return count_.Allocate(1);
  }
  uint32_t* count() const { return count_.get(); }  // The counter, in device memory.
  // DeviceModel::CheckSums.
  Status CheckNow(Stream* stream) {
    TERN_RETURN_IF_ERROR(StartCopy(stream));
    TERN_RETURN_IF_ERROR(stream->Wait());
    return CheckCopy();
  }
  Status CheckLater(Stream* stream) {
    if (has_copy_) {
      const Result<bool> is_done = copied_->IsDone();
      if (!is_done.ok()) return is_done.status();
      if (!*is_done) return Ok();
      TERN_RETURN_IF_ERROR(CheckCopy());
    }
    return StartCopy(stream);
  }

 private:
  Status StartCopy(Stream* stream) {
    has_copy_ = true;
    TERN_RETURN_IF_ERROR(stream->CopyOut(copied_count_.get(), count_.get(), sizeof(uint32_t)));
    return copied_->Record(*stream);
  }
  Status CheckCopy() const {
    uint32_t num_bad = 0;
    std::memcpy(&num_bad, copied_count_.get(), sizeof num_bad);
    if (num_bad == 0) return Ok();
    return Status(Code::kMismatch,
                  "sums of codes arrived that the codes of their contributors cannot add up to");
  }

  Array<uint32_t> count_;
  PinnedMemory copied_count_;      // A copy of the counter.
  std::unique_ptr<Event> copied_;  // Recorded after the last copy.
  bool has_copy_ = false;
};

class Model : public CudaModel {
 public:
  explicit Model(const Layout& layout)
      : layout_(layout),
        rates_of_chunk_(layout.chunks.size()),
        sum_memory_(MaxSumBytes(layout) + MaxLeadingScalers(layout) * sizeof(float)) {}
  Status Allocate();

  const std::shared_ptr<Stream>& stream() const override { return stream_; }
  float* weights() const override { return memory_.weights.get(); }
  float* point() const override { return memory_.Point(); }
  float* gradients() const override { return memory_.gradients.get(); }
  Status LetCoderWaitFor(const Event& event) override { return coder_stream_->WaitFor(event); }
  DeviceCodes& codes() override { return *codes_; }

  Status CopyToDevice(const HostCopies& from) override;
  Status CopyToHost(const HostCopies& to) override;
  Status AddDecay(uint64_t begin, uint64_t count, float decay) override;
  Result<double> SumOfSquaredGradients() override;
  Status ScaleGradients(float factor) override;
  Status RetainGradients(uint64_t round, uint32_t bucket) override;
  Status CopyWeights(LocalArray to) override;
  Status CopyLocalToDevice(LocalArray to, const float* from) override;
  Status CopyLocalToHost(LocalArray from, float* to) override;
  Status UpdateLocalWeights(const kernels::LocalStep& step,
                            std::span<const kernels::TensorRates> rates) override;
  Bytes PlaceSum(const Bytes& sum) override { return sum_memory_.Place(sum); }
  Status Update(uint32_t chunk, const Sums& sums, const kernels::UpdateStep& step,
                std::span<const kernels::TensorRates> rates) override;
  Status ClearMeans(uint32_t bucket) override;
  Status DecodeMeans(uint32_t chunk, const Sums& sums) override;
  Result<std::vector<SquareSums>> SquareSumsOf(uint32_t bucket,
                                               std::span<const float> removed_decay) override;
  Status UpdateBucket(uint32_t bucket, const kernels::UpdateStep& step,
                      std::span<const kernels::TensorRates> rates) override;
  Status UpdateAverage(uint64_t begin, uint64_t count, float one_minus_decay,
                       Weights weights) override;
  Status CheckSums(SumCheck check) override {
    return check == SumCheck::kNow ? bad_sums_.CheckNow(stream_.get())
                                   : bad_sums_.CheckLater(stream_.get());
  }

 private:
  const Layout layout_;
  std::shared_ptr<Stream> stream_;
  std::unique_ptr<Stream> coder_stream_;  // The stream of the thread that encodes.
  ModelMemory memory_;
  Array<float> means_;                     // Mean gradients; allocated on first use.
  std::unique_ptr<Event> retained_event_;  // Recorded after the last copy of RetainGradients.
  KnownRates local_rates_;                 // Of each part (range of one tensor), for w'.
  StatsComputer stats_;
  Array<kernels::TensorRates> rates_;  // Of a bucket's parts, for UpdateBucket.
  std::vector<KnownRates> rates_of_chunk_;
  BadSums bad_sums_;
  SumMemory sum_memory_;
  std::unique_ptr<CudaCodes> codes_;
};

Status Model::Allocate() {
  TERN_RETURN_IF_ERROR(CheckDevice());
  auto stream = Stream::Make(), coder_stream = Stream::Make(Stream::Priority::kHigh);
  if (!stream.ok()) return stream.status();
  if (!coder_stream.ok()) return coder_stream.status();
  stream_ = std::move(*stream);
  coder_stream_ = std::move(*coder_stream);
  TERN_RETURN_IF_ERROR(memory_.Allocate(layout_, stream_.get()));
  for (const Status& allocate_status :
       {stats_.Allocate(memory_.max_sizes), rates_.Allocate(memory_.max_sizes.parts),
        bad_sums_.Allocate()})
    TERN_RETURN_IF_ERROR(allocate_status);
  if (layout_.rounds > 1) {
    auto event = Event::Make();
    if (!event.ok()) return event.status();
    retained_event_ = std::move(*event);
  }
  codes_ = std::make_unique<CudaCodes>(layout_, memory_, *coder_stream_);
  TERN_RETURN_IF_ERROR(codes_->Allocate(layout_, stream_.get(), &sum_memory_));
  return stream_->Wait();
}

Status Model::CopyToDevice(const HostCopies& from) {
  for (const auto& [host_array, device_array] : memory_.HostDevicePairs(from))
    TERN_RETURN_IF_ERROR(
        stream_->CopyIn(device_array, host_array, layout_.elements * sizeof(float)));
  return stream_->Wait();
}

Status Model::CopyToHost(const HostCopies& to) {
  for (const auto& [host_array, device_array] : memory_.HostDevicePairs(to))
    TERN_RETURN_IF_ERROR(
        stream_->CopyOut(host_array, device_array, layout_.elements * sizeof(float)));
  return stream_->Wait();
}

// Runs on the stream of the thread that encodes, because the launches that encode the gradients
// follow on that stream. That stream does not wait for the stream of the compute thread.
Status Model::AddDecay(uint64_t begin, uint64_t count, float decay) {
  float* decayed_gradients = memory_.gradients.get() + begin;
  return CheckCuda(kernels::AddDecayOnDevice(coder_stream_->get(), decayed_gradients,
                                             point() + begin, count, decay, decayed_gradients),
                   "weight decay");
}

Result<double> Model::SumOfSquaredGradients() {
  const auto stats =
      stats_.Compute(memory_.gradients.get(), memory_.all_elements, coder_stream_.get());
  if (!stats.ok()) return stats.status();
  return stats->front().sum_squares;
}

Status Model::ScaleGradients(float factor) {
  return CheckCuda(kernels::ScaleOnDevice(coder_stream_->get(), memory_.gradients.get(),
                                          layout_.elements, factor),
                   "clipping by norm");
}

// Copies on the stream of the thread that encodes, on which the launches that encode the copy
// follow. The compute thread's stream, which computes the next gradients, waits for the copy.
Status Model::RetainGradients(uint64_t round, uint32_t bucket) {
  const Group& group = memory_.buckets[bucket];
  float* retained_arena =
      memory_.retained_gradients[round % memory_.retained_gradients.size()].get();
  for (size_t i = 0; i < group.size(); ++i) {
    const kernels::Part& part = group.part(i);
    TERN_RETURN_IF_ERROR(coder_stream_->CopyOnDevice(retained_arena + part.begin,
                                                     memory_.gradients.get() + part.begin,
                                                     part.count * sizeof(float)));
  }
  TERN_RETURN_IF_ERROR(retained_event_->Record(*coder_stream_));
  return stream_->WaitFor(*retained_event_);
}

Status Model::CopyWeights(LocalArray to) {
  return stream_->CopyOnDevice(memory_.LocalArena(to), memory_.weights.get(),
                               layout_.elements * sizeof(float));
}

Status Model::CopyLocalToDevice(LocalArray to, const float* from) {
  TERN_RETURN_IF_ERROR(
      stream_->CopyIn(memory_.LocalArena(to), from, layout_.elements * sizeof(float)));
  return stream_->Wait();
}

Status Model::CopyLocalToHost(LocalArray from, float* to) {
  TERN_RETURN_IF_ERROR(
      stream_->CopyOut(to, memory_.LocalArena(from), layout_.elements * sizeof(float)));
  return stream_->Wait();
}

Status Model::UpdateLocalWeights(const kernels::LocalStep& step,
                                 std::span<const kernels::TensorRates> rates) {
  std::vector<kernels::TensorRates> rates_by_part;
  for (const kernels::TiledPart& tiled : memory_.all_parts.host_tiling.parts)
    rates_by_part.push_back(rates[tiled.part.tensor]);
  const auto device_rates = local_rates_.OnDevice(rates_by_part, stream_.get());
  if (!device_rates.ok()) return device_rates.status();
  const float* before_arena = memory_.LocalArena(LocalArray::kBefore);
  const kernels::LocalArenas arenas{.weights = memory_.weights.get(),
                                    .gradients = memory_.gradients.get(),
                                    .reference = before_arena != nullptr ? before_arena : point(),
                                    .velocity = memory_.LocalArena(LocalArray::kVelocity),
                                    .mean_square = memory_.LocalArena(LocalArray::kMeanSquare),
                                    .point = point()};
  return CheckCuda(kernels::MoveLocallyOnDevice(stream_->get(), memory_.all_parts.tiling(), step,
                                                *device_rates, arenas),
                   "a local update");
}

Status Model::Update(uint32_t chunk, const Sums& sums, const kernels::UpdateStep& step,
                     std::span<const kernels::TensorRates> rates) {
  const auto device_rates = rates_of_chunk_[chunk].OnDevice(rates, stream_.get());
  if (!device_rates.ok()) return device_rates.status();
  if (codes_->codec().UpdatesInOnePass())
    return codes_->codec().Update(chunk, sums, {step, *device_rates, memory_.Arenas()},
                                  bad_sums_.count());
  TERN_RETURN_IF_ERROR(DecodeMeans(chunk, sums));
  return UpdateFromMeans(*stream_, memory_.chunks[chunk], means_.get(), step, *device_rates,
                         memory_.Arenas());
}

Status Model::ClearMeans(uint32_t bucket) {
  if (means_.get() == nullptr) TERN_RETURN_IF_ERROR(means_.Allocate(layout_.elements));
  for (size_t i = 0; i < memory_.buckets[bucket].size(); ++i) {
    const kernels::Part& part = memory_.buckets[bucket].part(i);
    TERN_RETURN_IF_ERROR(stream_->Zero(means_.get() + part.begin, part.count * sizeof(float)));
  }
  return Ok();
}

Status Model::DecodeMeans(uint32_t chunk, const Sums& sums) {
  if (means_.get() == nullptr) TERN_RETURN_IF_ERROR(means_.Allocate(layout_.elements));
  return codes_->codec().DecodeMeans(chunk, sums, means_.get(), bad_sums_.count());
}

Result<std::vector<DeviceModel::SquareSums>> Model::SquareSumsOf(
    uint32_t bucket, std::span<const float> removed_decay) {
  for (size_t i = 0; i < removed_decay.size(); ++i) {
    if (removed_decay[i] == 0) continue;
    const kernels::Part& part = memory_.buckets[bucket].part(i);
    float* means = means_.get() + part.begin;
    TERN_RETURN_IF_ERROR(CheckCuda(
        kernels::AddDecayOnDevice(stream_->get(), means, memory_.weights.get() + part.begin,
                                  part.count, -removed_decay[i], means),
        "the gradient without weight decay"));
  }
  const auto weight_stats =
      stats_.Compute(memory_.weights.get(), memory_.buckets[bucket], stream_.get());
  if (!weight_stats.ok()) return weight_stats.status();
  const auto mean_stats = stats_.Compute(means_.get(), memory_.buckets[bucket], stream_.get());
  if (!mean_stats.ok()) return mean_stats.status();
  std::vector<SquareSums> squares;
  for (size_t i = 0; i < weight_stats->size(); ++i)
    squares.push_back({(*weight_stats)[i].sum_squares, (*mean_stats)[i].sum_squares});
  return squares;
}

Status Model::UpdateBucket(uint32_t bucket, const kernels::UpdateStep& step,
                           std::span<const kernels::TensorRates> rates) {
  TERN_RETURN_IF_ERROR(stream_->CopyInNow(rates_.get(), rates.data(), rates.size_bytes()));
  return UpdateFromMeans(*stream_, memory_.buckets[bucket], means_.get(), step, rates_.get(),
                         memory_.Arenas());
}

Status Model::UpdateAverage(uint64_t begin, uint64_t count, float one_minus_decay,
                            Weights weights) {
  float *w = memory_.weights.get() + begin, *average = memory_.average_arena.get() + begin;
  TERN_RETURN_IF_ERROR(
      CheckCuda(kernels::EmaUpdateOnDevice(stream_->get(), average, w, count, one_minus_decay),
                "the moving average"));
  return weights == Weights::kKept ? Ok()
                                   : stream_->CopyOnDevice(w, average, count * sizeof(float));
}

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<DeviceModel>> DeviceModel::Make(const Layout& layout) {
  auto model = std::make_unique<cuda::Model>(layout);
  TERN_RETURN_IF_ERROR(model->Allocate());
  return std::unique_ptr<DeviceModel>(std::move(model));
}

}  // namespace tern::device
