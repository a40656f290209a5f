#include "worker/classify.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "worker/compute_threads.h"
#include "worker/data/datasets.h"
#include "worker/data/encoded.h"
#include "worker/data/files.h"
#include "worker/engine/net.h"

namespace tern::worker {
namespace {

constexpr uint64_t kMaxNamesBytes = 64 << 20;

// The names of the classes, by number: those beside the weights, or else those of the test set.
std::vector<std::string> ReadClassNames(const pb::Job& job, const std::string& weights_path,
                                        uint32_t num_classes) {
  if (auto names = ClassNamesBeside(weights_path, num_classes); names.has_value())
    return *std::move(names);
  pb::Data data = job.data();
  data.set_test_limit(1);
  data::ReadOptions options;
  options.warn = [](const std::string&) {};  // Only the names matter here.
  const auto dataset = data::ReadDataset(data, data::Split::kTest, options);
  return dataset.ok() ? (*dataset)->class_names : std::vector<std::string>();
}

std::vector<double> Softmax(const std::vector<float>& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> probabilities;
  double sum = 0;
  for (const float score : scores) {
    probabilities.push_back(std::exp(score - largest));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

}  // namespace

std::optional<std::vector<std::string>> ClassNamesBeside(const std::string& weights_path,
                                                         uint32_t num_classes) {
  const std::filesystem::path folder = std::filesystem::path(weights_path).parent_path();
  const auto text = tern::ReadWholeFile((folder / "classes.txt").string(), kMaxNamesBytes);
  if (!text.ok()) return std::nullopt;
  std::vector<std::string> names;
  std::istringstream lines(*text);
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  if (names.size() > num_classes) return std::nullopt;
  return names;
}

Result<std::unique_ptr<Classifier>> Classifier::Make(const setup::Setup& setup,
                                                     const std::string& weights_path) {
  const pb::Job job = config::JobForRank(setup.job, 0);
  const uint32_t channels = setup.net.input().channels();
  if (channels != 1 && channels != 3) {
    return Status(Code::kBadJob, Cat("model.input_channels: saw ", channels,
                                     "; JPEG and PNG images have 1 or 3 channels"));
  }
  TERN_RETURN_IF_ERROR(SetComputeThreads(job, 0));
  const auto table = models::MakeParameterTable(setup.net);
  if (!table.ok()) return table.status();
  Result<FileWeights> weights = ReadFileWeights(weights_path, *table);
  if (!weights.ok()) return weights.status();
  Result<data::Augmenter> augmenter =
      data::Augmenter::Make(job.data(), job.seed(), data::Split::kTest, channels);
  if (!augmenter.ok()) return augmenter.status();
  std::unique_ptr<Classifier> classifier(
      new Classifier(setup, std::move(*augmenter), std::move(*weights)));
  classifier->class_names_ = ReadClassNames(job, weights_path, setup.net.classes());
  auto net = engine::Net::Make(setup.net, {.batch = 1, .is_training = false},
                               {.parameters = classifier->weights_.parameters.data(),
                                .statistics = classifier->weights_.statistics.data()});
  if (!net.ok()) return net.status();
  classifier->net_ =
      std::make_unique<ViewedNet>(std::move(*net), setup.net, /*batch=*/1, job.evaluation().views(),
                                  classifier->augmenter_.rule(), /*takes_bytes=*/false);
  return classifier;
}

Result<std::vector<double>> Classifier::Classify(const std::string& image_path) {
  const pb::ImageShape& input = setup_.net.input();
  std::vector<uint8_t> bytes;
  TERN_RETURN_IF_ERROR(
      data::ReadWholeFile(image_path, "a JPEG or PNG image", data::kMaxEncodedBytes, &bytes));
  data::Image image;
  TERN_RETURN_IF_ERROR(data::DecodeImage(bytes, input.channels(), &image).Within(image_path));
  const Result<data::Size> size = augmenter_.OutputSizeOf({image.height, image.width});
  if (!size.ok()) return size.status().Within(image_path);
  if (size->height != input.height() || size->width != input.width()) {
    return Status(Code::kBadData,
                  Cat(image_path, ": comes out as ", size->width, " x ", size->height,
                      " pixels; the network takes ", input.width(), " x ", input.height(),
                      "; set data.augmentation.height and width, and resize_shorter"));
  }
  const size_t image_size = size_t{input.channels()} * input.height() * input.width();
  data::Batch batch;
  batch.labels = {0};  // Any label: the loss is not used.
  data::Augmenter::Workspace workspace;
  if (net_->takes_bytes()) {
    batch.bytes.resize(image_size);
    batch.draws = {
        augmenter_.ScaleAndCrop(image, {0, 0}, &workspace.scaled_image, batch.bytes.data())};
  } else {
    batch.images.resize(image_size);
    augmenter_.Apply(image, {0, 0}, &workspace, batch.images.data());
  }
  std::vector<float> scores(setup_.net.classes());
  engine::Score ignored_score;
  TERN_RETURN_IF_ERROR(net_->Run(batch, scores, &ignored_score));
  const bool is_finite =
      std::all_of(scores.begin(), scores.end(), [](float score) { return std::isfinite(score); });
  if (is_finite) return Softmax(scores);
  return Status(Code::kBadData, Cat(image_path,
                                    ": its scores are not finite; the weights are of a "
                                    "training that diverged"));
}

std::string Classifier::NameOf(size_t class_number) const {
  return class_number < class_names_.size() ? class_names_[class_number] : Cat(class_number);
}

}  // namespace tern::worker
