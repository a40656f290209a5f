#include "worker/viewed_net.h"

#include <algorithm>
#include <utility>

#include "worker/engine/softmax_loss.h"
#include "worker/net_compute.h"

namespace tern::worker {
namespace {

float LabelSmoothingOf(const pb::NetDef& def) {
  const auto loss =
      std::find_if(def.layers().begin(), def.layers().end(),
                   [](const pb::LayerDef& layer) { return layer.has_softmax_loss(); });
  return loss == def.layers().end() ? 0 : loss->softmax_loss().label_smoothing();
}

}  // namespace

ViewedNet::ViewedNet(std::unique_ptr<engine::Net> net, const pb::NetDef& def, uint32_t batch,
                     pb::Evaluation::Views views, const kernels::PixelRule& rule, bool takes_bytes)
    : net_(std::move(net)),
      input_(def.input()),
      batch_(batch),
      classes_(def.classes()),
      label_smoothing_(LabelSmoothingOf(def)),
      views_(data::ViewsOf(views)),
      pixel_tables_(rule),
      net_takes_bytes_(takes_bytes) {
  if (views_.size() == 1) return;
  const size_t image_size = size_t{input_.channels()} * input_.height() * input_.width();
  view_bytes_.resize(batch * image_size);
  if (!net_takes_bytes_) view_floats_.resize(batch * image_size);
  view_scores_.resize(size_t{batch} * classes_);
  sums_.resize(view_scores_.size());
  mean_scores_.resize(view_scores_.size());
}

Status ViewedNet::Run(const data::Batch& batch, std::span<float> scores, engine::Score* score) {
  if (views_.size() == 1) {
    engine::Net::Feed feed = FeedOf(batch);
    feed.scores = scores;
    net_->Forward(feed, score);
    return net_->status();
  }
  std::fill(sums_.begin(), sums_.end(), 0.0);
  for (const data::View& view : views_) {
    TERN_RETURN_IF_ERROR(RunView(view, batch));
    for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += view.weight * view_scores_[i];
  }
  std::transform(sums_.begin(), sums_.end(), mean_scores_.begin(),
                 [](double sum) { return static_cast<float>(sum); });
  const auto used = static_cast<uint32_t>(batch.labels.size());
  const engine::SoftmaxSums loss =
      engine::SoftmaxLoss(mean_scores_.data(), batch.labels, batch_, classes_, used,
                          label_smoothing_, /*gradient=*/nullptr);
  score->loss += loss.loss;
  score->correct += loss.correct;
  score->among_five += loss.among_five;
  score->samples += used;
  if (!scores.empty()) std::copy(mean_scores_.begin(), mean_scores_.end(), scores.begin());
  return Ok();
}

Status ViewedNet::RunView(const data::View& view, const data::Batch& batch) {
  const size_t image_size = size_t{input_.channels()} * input_.height() * input_.width();
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    uint8_t* const bytes = view_bytes_.data() + i * image_size;
    data::ShowView(view, batch.bytes.data() + i * image_size, input_.channels(), input_.height(),
                   input_.width(), bytes);
    if (net_takes_bytes_) continue;
    pixel_tables_.ToFloats(bytes, input_.height(), input_.width(), batch.draws[i],
                           view_floats_.data() + i * image_size);
  }
  engine::Net::Feed feed = FeedOf(batch);
  feed.scores = view_scores_;
  feed.bytes = view_bytes_;  // A net that takes floats reads only `images`.
  feed.images = view_floats_;
  net_->Forward(feed, nullptr);
  return net_->status();
}

}  // namespace tern::worker
