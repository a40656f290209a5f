// Tests of evaluation by several views: a net whose scores are pixels shows what was averaged.
#include "worker/viewed_net.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "models/graph/shapes.h"
#include "models/models.h"
#include "worker/engine/softmax_loss.h"

namespace tern::worker {
namespace {

constexpr uint32_t kBatch = 3, kHeight = 2, kWidth = 3, kPixels = kHeight * kWidth;

// A net whose score c is pixel c of the image, plus a bias.
struct PixelNet {
  PixelNet() {
    pb::Model model;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "layers { name: 'pixels' dense { outputs: 6 } }"
        "layers { name: 'loss' softmax_loss { label_smoothing: 0.2 } }",
        model.mutable_net()));
    pb::ImageShape image;
    image.set_channels(1);
    image.set_height(kHeight);
    image.set_width(kWidth);
    def = *models::BuildNet(model, image, kPixels);
    parameters.assign(kPixels * kPixels + kPixels, 0.f);
    for (uint32_t c = 0; c < kPixels; ++c) parameters[c * kPixels + c] = 1;
  }
  std::unique_ptr<ViewedNet> Make(pb::Evaluation::Views views) {
    auto net = engine::Net::Make(def, {.batch = kBatch, .is_training = false},
                                 {.parameters = parameters.data()});
    EXPECT_TRUE(net.ok()) << net.status().message();
    return std::make_unique<ViewedNet>(std::move(*net), def, kBatch, views, rule, false);
  }

  pb::NetDef def;
  std::vector<float> parameters;
  const kernels::PixelRule rule{.channels = {{.scale = 255}}};  // a byte is its own value
};

// Two images in a batch of three.
data::Batch TwoImages() {
  data::Batch batch;
  batch.bytes = {0, 1, 2, 3, 4, 6, 9, 0, 4, 2, 2, 1, 77, 77, 77, 77, 77, 77};
  batch.draws.resize(kBatch);
  batch.labels = {5, 1};
  return batch;
}

TEST(ViewedNet, AveragesTheScoresOfTheViews) {
  PixelNet pixel_net;
  for (const auto views : {pb::Evaluation::mirrored, pb::Evaluation::shifted}) {
    const auto net = pixel_net.Make(views);
    ASSERT_TRUE(net->takes_bytes());
    const data::Batch batch = TwoImages();
    std::vector<double> means(kBatch * kPixels);
    for (const data::View& view : data::ViewsOf(views)) {
      std::vector<uint8_t> shown(2 * kPixels);
      data::ShowView(view, batch.bytes.data(), 2, kHeight, kWidth, shown.data());
      for (size_t i = 0; i < shown.size(); ++i) means[i] += view.weight * shown[i];
    }
    std::vector<float> expected(means.begin(), means.end()), scores(kBatch * kPixels);
    engine::Score score;
    for (int repetition = 0; repetition < 2; ++repetition)
      ASSERT_TRUE(net->Run(batch, scores, &score).ok());
    for (size_t i = 0; i < 2 * kPixels; ++i) EXPECT_FLOAT_EQ(scores[i], expected[i]) << i;
    const engine::SoftmaxSums sums =
        engine::SoftmaxLoss(expected.data(), batch.labels, kBatch, kPixels, 2, 0.2f, nullptr);
    EXPECT_NEAR(score.loss, 2 * sums.loss, 1e-5);
    EXPECT_EQ(score.correct, 2 * sums.correct);
    EXPECT_EQ(score.among_five, 2 * sums.among_five);
    EXPECT_EQ(score.samples, 4u);
  }
}

TEST(ViewedNet, OfOneViewIsTheNet) {
  PixelNet pixel_net;
  const auto net = pixel_net.Make(pb::Evaluation::one);
  EXPECT_FALSE(net->takes_bytes());
  data::Batch batch = TwoImages();
  batch.images.assign(batch.bytes.begin(), batch.bytes.end());
  std::vector<float> scores(kBatch * kPixels);
  engine::Score score;
  ASSERT_TRUE(net->Run(batch, scores, &score).ok());
  EXPECT_EQ(scores, batch.images);
  EXPECT_EQ(score.correct, 1u);
  EXPECT_EQ(score.samples, 2u);
}

}  // namespace
}  // namespace tern::worker
