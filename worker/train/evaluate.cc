#include "worker/train/evaluate.h"

#include <algorithm>
#include <utility>

namespace tern::train {

Result<std::unique_ptr<Evaluate>> Evaluate::Make(const setup::Setup& setup, uint32_t rank,
                                                 const data::Dataset& test, const Replica& replica,
                                                 Progress& progress) {
  std::unique_ptr<Evaluate> evaluate(new Evaluate(setup, test, progress));
  evaluate->part_ = data::TestPart(test.count(), rank, setup.plan.workers);
  auto net = engine::Net::Make(setup.net, {evaluate->batch_, false}, replica.evaluated(), nullptr);
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

engine::Score Evaluate::Run() {
  engine::Score score;
  for (uint64_t at = part_.begin; at < part_.end; at += batch_) {
    const auto used = static_cast<uint32_t>(std::min<uint64_t>(batch_, part_.end - at));
    for (uint32_t i = 0; i < used; ++i) {
      data::FillImage(test_, at + i, pixels_, images_.data() + i * test_.image_size());
      labels_[i] = test_.labels[at + i];
    }
    net_->Forward(images_, labels_, used, &score);
    progress_.Move();
  }
  return score;
}

}  // namespace tern::train
