#include "worker/evaluate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "client/train/compute.h"
#include "worker/data/prefetcher.h"
#include "worker/net_compute.h"

namespace tern::worker {

Result<std::unique_ptr<Evaluator>> Evaluator::Make(
    const setup::Setup& setup, const data::Samples& test, client::Replica& replica,
    client::Progress& progress, engine::Device device, device::DeviceModel* model) {
  // A moving average that is on a device is copied to the host before each evaluation, so the net
  // reads the host's copy and gets no device model.
  return Make(setup, test,
              {.parameters = replica.evaluated_weights(),
               .statistics = replica.mean_statistics().data(),
               .model = replica.average().empty() ? model : nullptr,
               .frozen = replica.frozen()},
              progress, device);
}

Result<std::unique_ptr<Evaluator>> Evaluator::Make(const setup::Setup& setup,
                                                   const data::Samples& test,
                                                   const engine::Net::Arenas& arenas,
                                                   client::Progress& progress,
                                                   engine::Device device) {
  const bool takes_bytes = device == engine::Device::kCuda;
  std::unique_ptr<Evaluator> evaluator(new Evaluator(setup, test, progress));
  engine::Net::Options options = {.device = device,
                                  .batch = evaluator->batch_,
                                  .is_training = false,
                                  .precision = PrecisionOf(setup.job.train())};
  if (takes_bytes) options.pixels = test.rule();
  if (arenas.frozen != nullptr) options.freeze = setup::FrozenPatterns(setup.job);
  auto net = engine::Net::Make(setup.net, options, arenas);
  if (!net.ok()) return net.status();
  evaluator->net_ =
      std::make_unique<ViewedNet>(std::move(*net), setup.net, evaluator->batch_,
                                  setup.job.evaluation().views(), test.rule(), takes_bytes);
  return evaluator;
}

Evaluator::Evaluator(const setup::Setup& setup, const data::Samples& test,
                     client::Progress& progress)
    : test_samples_(test),
      progress_(progress),
      batch_(setup.job.evaluation().batch()),
      threads_(setup.job.data().threads()),
      classes_(setup.net.classes()) {}

Result<engine::Score> Evaluator::Run(uint32_t part, uint32_t num_parts,
                                     client::Confusion* confusion) {
  const data::Range range = data::DivideSamples(test_samples_.count(), part, num_parts);
  const auto batch_samples = [this, range](uint64_t batch) {
    std::vector<data::Augmenter::SampleId> samples;
    const uint64_t begin = range.begin + batch * batch_;
    for (uint64_t i = begin; i < std::min(begin + batch_, range.end); ++i)
      samples.push_back({0, i});
    return samples;
  };
  data::Prefetcher prefetcher(
      test_samples_, batch_samples,
      {.threads = threads_, .min_images = batch_, .fills_bytes = net_->takes_bytes()});
  progress_.num_evaluated = 0;
  progress_.num_to_evaluate = range.end - range.begin;
  engine::Score score;
  std::vector<float> scores;
  if (confusion != nullptr) {
    confusion->assign(size_t{classes_} * classes_, 0);
    scores.resize(size_t{batch_} * classes_);
  }
  for (uint64_t begin = range.begin; begin < range.end; begin += batch_) {
    const Result<const data::Batch*> batch = prefetcher.Next();
    if (!batch.ok()) return batch.status();
    if (!(*batch)->labels.empty()) TERN_RETURN_IF_ERROR(net_->Run(**batch, scores, &score));
    for (size_t n = 0; confusion != nullptr && n < (*batch)->labels.size(); ++n) {
      const auto row = scores.begin() + static_cast<ptrdiff_t>(n * classes_);
      // If several classes have the largest score, the first of them is predicted.
      const auto predicted = std::max_element(row, row + classes_) - row;
      ++(*confusion)[size_t{(*batch)->labels[n]} * classes_ + static_cast<size_t>(predicted)];
    }
    progress_.num_evaluated += std::min<uint64_t>(batch_, range.end - begin);
    progress_.CountAdvance();
  }
  return score;
}

}  // namespace tern::worker
