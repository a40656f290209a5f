// Evaluates a batch of images with a net, averaging the scores of several views of each image.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "kernels/nn/pixels.h"
#include "proto/evaluation.pb.h"
#include "proto/net.pb.h"
#include "worker/data/prefetcher.h"
#include "worker/data/views.h"
#include "worker/engine/net.h"

namespace tern::worker {

// One thread at a time may use an object: the net's.
class ViewedNet {
 public:
  // `net` was made for `def` and `batch` images, for evaluation. It takes images as bytes if
  // `takes_bytes`, else as floats; `rule` turns bytes into floats.
  ViewedNet(std::unique_ptr<engine::Net> net, const pb::NetDef& def, uint32_t batch,
            pb::Evaluation::Views views, const kernels::PixelRule& rule, bool takes_bytes);

  // Whether Run takes batches whose images are bytes (data::Batch::bytes): for a net that does, and
  // for several views, which are made of bytes on every device.
  bool takes_bytes() const { return net_takes_bytes_ || views_.size() > 1; }
  // Adds the loss and the hits of the batch's images to *score. If `scores` is not empty, writes
  // the scores of the images to it, [batch, classes]. Returns an error of the device.
  Status Run(const data::Batch& batch, std::span<float> scores, engine::Score* score);

 private:
  // Writes the scores of one view to view_scores_.
  Status RunView(const data::View& view, const data::Batch& batch);

  const std::unique_ptr<engine::Net> net_;
  const pb::ImageShape input_;
  const uint32_t batch_, classes_;
  const float label_smoothing_;  // of the net's loss
  const std::span<const data::View> views_;
  const kernels::PixelTables pixel_tables_;
  const bool net_takes_bytes_;
  std::vector<uint8_t> view_bytes_;  // the batch as a view shows it
  std::vector<float> view_floats_;   // the same, for a net that takes floats
  std::vector<float> view_scores_;
  std::vector<double> sums_;  // the weighted sums of the views' scores
  std::vector<float> mean_scores_;
};

}  // namespace tern::worker
