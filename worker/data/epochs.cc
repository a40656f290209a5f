#include "worker/data/epochs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/algorithm/facts.h"
#include "common/algorithm/ranks.h"
#include "common/base/text.h"

namespace tern::data {

namespace {

Status CheckBatchSize(const std::string& key, uint32_t batch, const Epochs::Options& options) {
  const auto bad_job_error = [](const std::string& what) { return Status(Code::kBadJob, what); };
  if (batch == 0 || batch % options.workers != 0) {
    return bad_job_error(key + " is " + std::to_string(batch) + "; expected a multiple of the " +
                         std::to_string(options.workers) +
                         " workers, so that each takes an equal part");
  }
  if (options.num_images < batch) {
    return bad_job_error("the training set holds " + std::to_string(options.num_images) +
                         " images, fewer than " + key + " (" + std::to_string(batch) +
                         "); lower it, or give more images (data.dir, data.train_limit)");
  }
  return Ok();
}

}  // namespace

Epochs::Options Epochs::OptionsOf(const pb::Job& job) {
  Options options;
  options.workers = algorithm::NumRanks(job);
  options.batch_total = algorithm::BatchOfWorker(job) * options.workers;
  options.partition = job.data().partition();
  options.epoch_end = job.data().epoch_end();
  options.batch_growth.assign(job.train().batch_growth().begin(), job.train().batch_growth().end());
  for (pb::BatchGrowth& growth : options.batch_growth)
    growth.set_batch_total(algorithm::BatchOfWorker(job, growth.batch_total()) * options.workers);
  return options;
}

Result<Epochs> Epochs::Make(const Options& options) {
  if (options.rank >= options.workers) {
    return Status(Code::kBadJob, "rank " + std::to_string(options.rank) + " of " +
                                     std::to_string(options.workers) +
                                     " workers; expected 0 to workers.count - 1");
  }
  TERN_RETURN_IF_ERROR(CheckBatchSize("train.batch_total", options.batch_total, options));
  Epochs epochs(options);
  epochs.epoch_length_ = epochs.EpochLengthOf(options.rank);
  epochs.AddStage(0, options.batch_total);
  for (const pb::BatchGrowth& growth : options.batch_growth) {
    TERN_RETURN_IF_ERROR(
        CheckBatchSize("train.batch_growth.batch_total", growth.batch_total(), options));
    epochs.AddStage(growth.at_epoch(), growth.batch_total());
  }
  return epochs;
}

uint64_t Epochs::EpochLengthOf(uint32_t rank) const {
  if (options_.partition == pb::Data::shared) return options_.num_images;
  return (options_.num_images - rank + options_.workers - 1) / options_.workers;
}

uint64_t Epochs::SamplesPerStep(uint32_t worker_batch) const {
  return options_.partition == pb::Data::shared ? uint64_t{worker_batch} * options_.workers
                                                : worker_batch;
}

uint64_t Epochs::OffsetInStep(uint32_t worker_batch) const {
  return options_.partition == pb::Data::shared ? uint64_t{worker_batch} * options_.rank : 0;
}

uint64_t Epochs::StepsInEpoch(uint32_t worker_batch) const {
  const uint64_t stride = SamplesPerStep(worker_batch);
  const uint64_t longest_epoch = EpochLengthOf(0),
                 shortest_epoch = EpochLengthOf(options_.workers - 1);
  switch (options_.epoch_end) {
    case pb::Data::drop_last:
      return shortest_epoch / stride;
    case pb::Data::pad:
      return (longest_epoch + stride - 1) / stride;
    case pb::Data::leave:  // Counts the full batches of rank 0; no rank has more images.
      return (longest_epoch - worker_batch) / stride + 1;
    case pb::Data::wrap:
      break;
  }
  return 0;
}

void Epochs::AddStage(double at_epoch, uint32_t batch_total) {
  Stage stage;
  stage.worker_batch = batch_total / options_.workers;
  if (!stages_.empty()) {
    const Stage& last_stage = stages_.back();
    if (options_.epoch_end == pb::Data::wrap) {
      const uint64_t image_count = options_.num_images;
      const double samples_before_stage = at_epoch * static_cast<double>(image_count);
      const uint64_t stride = uint64_t{last_stage.worker_batch} * options_.workers;
      // The samples that all workers together take before the stage `last_stage` begins.
      const double samples_before_last_stage =
          static_cast<double>(last_stage.first_sample) *
          (options_.partition == pb::Data::shared ? 1.0 : options_.workers);
      const auto last_stage_steps = static_cast<uint64_t>(
          std::ceil(std::max(0.0, samples_before_stage - samples_before_last_stage) /
                    static_cast<double>(stride)));
      stage.first_step = last_stage.first_step + last_stage_steps;
      stage.first_sample =
          last_stage.first_sample + last_stage_steps * SamplesPerStep(last_stage.worker_batch);
      stage.first_epoch = at_epoch;
    } else {  // If epochs do not wrap, the batch size changes only between two epochs.
      stage.first_epoch = std::ceil(at_epoch);
      stage.first_step = last_stage.first_step +
                         static_cast<uint64_t>(stage.first_epoch - last_stage.first_epoch) *
                             StepsInEpoch(last_stage.worker_batch);
    }
  }
  stages_.push_back(stage);
}

EpochSlice Epochs::SliceAt(uint64_t step) const {
  const auto next_stage =
      std::upper_bound(stages_.begin(), stages_.end(), step,
                       [](uint64_t value, const Stage& stage) { return value < stage.first_step; });
  const Stage& stage = *(next_stage - 1);
  const uint64_t step_in_stage = step - stage.first_step;
  if (options_.epoch_end == pb::Data::wrap) {
    const uint64_t position = stage.first_sample +
                              step_in_stage * SamplesPerStep(stage.worker_batch) +
                              OffsetInStep(stage.worker_batch);
    return {position / epoch_length_, position % epoch_length_, stage.worker_batch};
  }
  const uint64_t steps_in_epoch = StepsInEpoch(stage.worker_batch);
  EpochSlice slice;
  slice.epoch = static_cast<uint64_t>(stage.first_epoch) + step_in_stage / steps_in_epoch;
  slice.begin = step_in_stage % steps_in_epoch * SamplesPerStep(stage.worker_batch) +
                OffsetInStep(stage.worker_batch);
  slice.count = stage.worker_batch;
  if (options_.epoch_end == pb::Data::leave && slice.begin + slice.count > epoch_length_)
    slice.count = 0;
  return slice;
}

uint64_t Epochs::steps_per_epoch() const {
  const uint32_t worker_batch = stages_[0].worker_batch;
  if (options_.epoch_end == pb::Data::wrap)
    return options_.num_images / (uint64_t{worker_batch} * options_.workers);
  return StepsInEpoch(worker_batch);
}

uint64_t Epochs::StepsOf(double epochs) const {
  const Stage* last_stage = &stages_[0];
  for (const Stage& stage : stages_) {
    if (stage.first_epoch < epochs) last_stage = &stage;
  }
  const double epochs_in_last_stage = epochs - last_stage->first_epoch;
  const double steps_in_epoch =
      options_.epoch_end == pb::Data::wrap
          ? static_cast<double>(options_.num_images) /
                static_cast<double>(uint64_t{last_stage->worker_batch} * options_.workers)
          : static_cast<double>(StepsInEpoch(last_stage->worker_batch));
  return std::max<uint64_t>(
      1, last_stage->first_step +
             static_cast<uint64_t>(std::llround(epochs_in_last_stage * steps_in_epoch)));
}

Result<uint64_t> StepsOfJob(const pb::Job& job, const Epochs& epochs) {
  const pb::Train& train = job.train();
  const uint64_t num_steps = train.has_steps() ? train.steps() : epochs.StepsOf(train.epochs());
  const algorithm::Facts facts = algorithm::FactsOf(job);
  if (facts.lookahead == nullptr || facts.lookahead->every_steps() <= num_steps) return num_steps;
  return Status(Code::kBadJob,
                Cat(facts.lookahead_key, ".every_steps: saw ", facts.lookahead->every_steps(),
                    "; allowed: at most ", num_steps,
                    ", the steps of the job, because the average is evaluated, and is that of the "
                    "first weights until then"));
}

}  // namespace tern::data
