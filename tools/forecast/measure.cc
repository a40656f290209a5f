#include "tools/forecast/measure.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "common/algorithm/ranks.h"
#include "common/base/clock.h"
#include "common/base/host_name.h"
#include "common/base/text.h"
#include "kernels/codes/philox.h"
#include "tools/forecast/codec_speed.h"
#include "tools/forecast/ping.h"
#include "worker/net_compute.h"
#include "worker/wait_compute.h"

namespace tern::tools {

namespace {

constexpr Time kMeasureTime = std::chrono::milliseconds(2500);
constexpr int kMaxSteps = 20, kMinSteps = 3;

// Returns a batch of uniformly random images and labels. `as_bytes`: images of bytes instead of
// floats.
data::Batch RandomBatch(const setup::Setup& setup, uint32_t samples, bool as_bytes) {
  const pb::ImageShape& input = setup.net.input();
  const size_t elements = size_t{samples} * input.channels() * input.height() * input.width();
  data::Batch batch;
  if (as_bytes) {
    batch.bytes.resize(elements);
    batch.draws.resize(samples);
  } else {
    batch.images.resize(elements);
  }
  const kernels::NoiseKey noise_key{.seed = 1, .stream = kernels::NoiseStream::kOrder};
  for (size_t i = 0; i < elements; i += 4) {
    const auto random_words = kernels::NoiseBlock(noise_key, static_cast<uint32_t>(i / 4), 0);
    for (size_t k = 0; k < 4 && i + k < elements; ++k) {
      if (as_bytes) {
        batch.bytes[i + k] = static_cast<uint8_t>(random_words[k]);
      } else {
        batch.images[i + k] = static_cast<float>(random_words[k]) * 0x1p-32f;
      }
    }
  }
  for (uint32_t i = 0; i < samples; ++i)
    batch.labels.push_back(kernels::NoiseBlock(noise_key, i, 1)[0] % setup.net.classes());
  return batch;
}

struct StepTimes {
  double step_s = 0;  // The median duration of a step.
  // By tensor: the median seconds from the beginning of the step until a layer first reads the
  // tensor (need), and until its gradient is final (ready).
  std::vector<double> need_s, ready_s;
};

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> MediansOf(const std::vector<std::vector<double>>& values_by_tensor) {
  std::vector<double> medians;
  for (const std::vector<double>& tensor_values : values_by_tensor)
    medians.push_back(MedianOf(tensor_values));
  return medians;
}

StepTimes TimeSteps(worker::BatchCompute& compute, const setup::Setup& setup, uint32_t samples) {
  const data::Batch batch = RandomBatch(setup, samples, compute.TakesBytes());
  const data::PinFunction pin_memory = compute.BytesPin();
  const auto pinned_memory =
      pin_memory ? pin_memory(batch.bytes.data(), batch.bytes.size()) : nullptr;
  const size_t num_tensors = setup.table.parameters.size();
  std::vector<double> step_seconds;
  std::vector<std::vector<double>> need_seconds(num_tensors), ready_seconds(num_tensors);
  const Time deadline = Now() + kMeasureTime;
  for (int i = -1; i < kMinSteps || (i < kMaxSteps && Now() < deadline); ++i) {
    const Time step_begin = Now();
    std::vector<double> needed_at(num_tensors), ready_at(num_tensors);
    compute.AnnounceNextBatch(&batch);  // Training also announces its next batch at this point.
    compute.Forward(batch, [&](uint32_t t) {
      needed_at[t] = Seconds(Now() - step_begin);
      return true;
    });
    compute.Backward([&](uint32_t t) { ready_at[t] = Seconds(Now() - step_begin); });
    if (i < 0) continue;  // The first step only warms up.
    step_seconds.push_back(Seconds(Now() - step_begin));
    for (size_t t = 0; t < num_tensors; ++t) {
      need_seconds[t].push_back(needed_at[t]);
      ready_seconds[t].push_back(ready_at[t]);
    }
  }
  compute.ReleaseBatches();
  StepTimes times;
  times.step_s = MedianOf(step_seconds);
  times.need_s = MediansOf(need_seconds);
  times.ready_s = MediansOf(ready_seconds);
  return times;
}

Result<std::unique_ptr<worker::BatchCompute>> MakeCompute(const setup::Setup& setup,
                                                          const engine::Net::Arenas& arenas) {
  if (setup.job.train().compute() == pb::Train::wait)
    return worker::MakeWaitCompute(setup, setup.job.train(), 0, arenas.gradients);
  const auto augmenter = data::Augmenter::Make(setup.job.data(), setup.job.seed(),
                                               data::Split::kTrain, setup.net.input().channels());
  if (!augmenter.ok()) return augmenter.status();
  return worker::MakeNetCompute(setup, 0, arenas, augmenter->rule());
}

// A network with its initial weights, and what computes it.
struct MeasuredNet {
  models::Weights weights;
  std::vector<float> gradients;
  std::unique_ptr<worker::BatchCompute> compute;
};

Status MakeMeasuredNet(const setup::Setup& setup, MeasuredNet* net) {
  omp_set_num_threads(static_cast<int>(setup.job.workers().threads()));
  net->weights = models::RandomWeights(setup.table, setup.job.seed());
  net->gradients.resize(setup.table.total);
  models::Weights& weights = net->weights;
  auto compute =
      MakeCompute(setup, {weights.parameters.data(), net->gradients.data(),
                          weights.statistics.data(), /*model=*/nullptr, weights.frozen.data()});
  if (!compute.ok()) return compute.status();
  net->compute = std::move(*compute);
  return Ok();
}

uint32_t BatchOfWorker(const setup::Setup& setup) {
  return std::max(1u, algorithm::BatchOfWorker(setup.job));
}

Status MeasureCompute(const setup::Setup& setup,
                      const std::function<void(const std::string&)>& warn, Profile* profile) {
  MeasuredNet net;
  TERN_RETURN_IF_ERROR(MakeMeasuredNet(setup, &net));
  const uint32_t batch_size = BatchOfWorker(setup);
  const StepTimes full_batch_times = TimeSteps(*net.compute, setup, batch_size);
  profile->waits = setup.job.train().compute() == pb::Train::wait;
  // With `compute: wait` a step takes the same time for every batch size. All of this time is
  // counted per sample.
  ComputeFit fit{0, full_batch_times.step_s / batch_size, ""};
  if (!profile->waits && batch_size >= 2) {
    const uint32_t half_batch_size = batch_size / 2;
    const double half_batch_s = TimeSteps(*net.compute, setup, half_batch_size).step_s;
    fit = FitCompute({batch_size, full_batch_times.step_s}, {half_batch_size, half_batch_s});
  }
  profile->compute_fixed_s = fit.fixed_s;
  profile->compute_sample_s = fit.sample_s;
  if (!fit.warning.empty()) warn(fit.warning);
  const auto share_of_step = [&](double seconds) {
    return std::clamp(seconds / full_batch_times.step_s, 0.0, 1.0);
  };
  std::transform(full_batch_times.need_s.begin(), full_batch_times.need_s.end(),
                 std::back_inserter(profile->need_shares), share_of_step);
  std::transform(full_batch_times.ready_s.begin(), full_batch_times.ready_s.end(),
                 std::back_inserter(profile->ready_shares), share_of_step);
  return Ok();
}

// A client's job: each step is one sample that takes `compute_s` seconds. Gradients become ready in
// the last two thirds, which the backward pass takes, from the last tensor to the first.
void AssumeCompute(const setup::Setup& setup, double compute_s, Profile* profile) {
  profile->waits = true;
  profile->compute_sample_s = compute_s;
  const size_t tensors = setup.table.parameters.size();
  profile->need_shares.assign(tensors, 0);
  profile->ready_shares.resize(tensors);
  uint64_t elements_done = 0;
  for (size_t t = tensors; t-- > 0;) {
    elements_done += setup.table.parameters[t].count;
    profile->ready_shares[t] = 1 / 3.0 + 2 / 3.0 * static_cast<double>(elements_done) /
                                             static_cast<double>(setup.table.total);
  }
}

Status MeasureCodecsOf(const setup::Setup& variant, Profile* profile) {
  const pb::Exchange& exchange = variant.job.exchange();
  std::vector<std::string> codec_names = {exchange.codec()};
  for (const pb::CodecRule& rule : exchange.rules()) codec_names.push_back(rule.codec());
  if (variant.plan.is_central) codec_names.push_back(exchange.pull_codec());
  for (const std::string& name : codec_names)
    TERN_RETURN_IF_ERROR(MeasureCodec(variant, name, profile));
  return Ok();
}

}  // namespace

ComputeFit FitCompute(const TimedStep& full, const TimedStep& half) {
  const double slope = (full.seconds - half.seconds) / (full.samples - half.samples);
  if (slope <= 0) {
    return {0, full.seconds / full.samples,
            Cat("the two measurements contradict each other, the machine is busy: a step of ",
                full.samples, " samples took ", 1e3 * full.seconds, " ms, one of ", half.samples,
                " took ", 1e3 * half.seconds,
                " ms; the forecast takes time as proportional to samples, measure again on a quiet "
                "machine")};
  }
  const double sample_s = std::min(slope, full.seconds / full.samples);
  return {full.seconds - full.samples * sample_s, sample_s, ""};
}

Result<double> MeasureStep(const setup::Setup& setup) {
  MeasuredNet net;
  TERN_RETURN_IF_ERROR(MakeMeasuredNet(setup, &net));
  return TimeSteps(*net.compute, setup, BatchOfWorker(setup)).step_s;
}

Result<Profile> MeasureProfile(const setup::Setup& setup,
                               const std::vector<const setup::Setup*>& variants,
                               double client_compute_s,
                               const std::function<void(const std::string&)>& warn) {
  Profile profile;
  profile.model = setup.net.name();
  profile.parameters = setup.table.total;
  profile.machine = HostName();
  if (setup::HasForeignTable(setup.job)) {
    AssumeCompute(setup, client_compute_s, &profile);
  } else {
    TERN_RETURN_IF_ERROR(MeasureCompute(setup, warn, &profile));
  }
  if (!setup::IsClientJob(setup.job)) TERN_RETURN_IF_ERROR(MeasureUpdate(setup, &profile));
  for (const setup::Setup* variant : variants)
    TERN_RETURN_IF_ERROR(MeasureCodecsOf(*variant, &profile));
  const Result<MessageCost> message_cost = MeasureMessages();
  if (!message_cost.ok()) return message_cost.status();
  profile.message_s = message_cost->message_s;
  profile.message_cpu_s = message_cost->message_cpu_s;
  profile.byte_cpu_s = message_cost->byte_cpu_s;
  profile.hop_s = message_cost->hop_s;
  return profile;
}

}  // namespace tern::tools
