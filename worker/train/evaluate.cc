#include "worker/train/evaluate.h"

#include <algorithm>
#include <utility>

namespace tern::train {

Result<std::unique_ptr<Evaluate>> Evaluate::Make(const setup::Setup& setup,
                                                 const data::Dataset& test, Replica& replica,
                                                 Progress& progress) {
  std::unique_ptr<Evaluate> evaluate(new Evaluate(setup, test, progress));
  auto net = engine::Net::Make(
      setup.net, {.batch = evaluate->batch_, .training = false},
      {.parameters = replica.evaluated(), .statistics = replica.mean_statistics().data()});
  if (!net.ok()) return net.status();
  evaluate->net_ = std::move(*net);
  return evaluate;
}

Evaluate::Evaluate(const setup::Setup& setup, const data::Dataset& test, Progress& progress)
    : test_(test),
      progress_(progress),
      pixels_(data::MakePixelTable(static_cast<float>(setup.job.data().scale()),
                                   static_cast<float>(setup.job.data().offset()))),
      batch_(setup.job.evaluation().batch()),
      images_(batch_ * test.image_size()),
      labels_(batch_) {}

engine::Score Evaluate::Run(uint32_t part, uint32_t parts) {
  const data::Range range = data::TestPart(test_.count(), part, parts);
  engine::Score score;
  for (uint64_t at = range.begin; at < range.end; at += batch_) {
    const auto used = static_cast<uint32_t>(std::min<uint64_t>(batch_, range.end - at));
    for (uint32_t i = 0; i < used; ++i) {
      data::FillImage(test_, at + i, pixels_, images_.data() + i * test_.image_size());
      labels_[i] = test_.labels[at + i];
    }
    net_->Forward({images_, labels_, used}, &score);
    progress_.Move();
  }
  return score;
}

}  // namespace tern::train
