#include "worker/read_samples.h"

#include <chrono>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "worker/data/datasets.h"

namespace tern::worker {
namespace {

constexpr Time kLogInterval = std::chrono::seconds(5);

Status CheckShape(const setup::Setup& setup, const data::Samples& samples,
                  const std::string& split) {
  const pb::ImageShape& input = setup.net.input();
  const data::Size image_size = samples.size();
  if (samples.channels() != input.channels() || image_size.height != input.height() ||
      image_size.width != input.width()) {
    return Status(Code::kBadData, Cat("the ", split, " images in ", setup.job.data().dir(), " are ",
                                      samples.channels(), " x ", image_size.height, " x ",
                                      image_size.width, "; the model takes ", input.channels(),
                                      " x ", input.height(), " x ", input.width(),
                                      " (model.input_channels, input_height, input_width; "
                                      "data.augmentation.height, width)"));
  }
  const uint32_t classes = samples.dataset().classes;
  if (classes <= setup.net.classes()) return Ok();
  return Status(Code::kBadData,
                Cat("the ", split, " labels in ", setup.job.data().dir(), " hold label ",
                    classes - 1, "; the model has labels 0 to ", setup.net.classes() - 1));
}

// `changed_as`: of which set the augmentation is.
Result<std::unique_ptr<data::Samples>> Read(const setup::Setup& setup, const pb::Job& job,
                                            data::Split split, data::Split changed_as) {
  const std::string set_name = split == data::Split::kTrain ? "training" : "test";
  data::ReadOptions options;
  options.channels = setup.net.input().channels();
  options.progress = [last_logged = Now(), set_name](uint64_t done, uint64_t total) mutable {
    if (Now() - last_logged < kLogInterval) return;
    last_logged = Now();
    LOG(INFO) << "scanned " << done << " of " << total << " " << set_name << " images";
  };
  auto dataset = data::ReadDataset(job.data(), split, options);
  if (!dataset.ok()) return dataset.status();
  auto samples = data::Samples::Make(std::move(*dataset), job.data(), job.seed(), changed_as);
  if (!samples.ok()) return samples.status();
  TERN_RETURN_IF_ERROR(CheckShape(setup, **samples, set_name));
  LOG(INFO) << (*samples)->count() << " " << set_name << " images in "
            << (*samples)->dataset().classes << " classes, "
            << (*samples)->dataset().damaged_images->count() << " damaged images are left out";
  return samples;
}

}  // namespace

Result<std::unique_ptr<data::Samples>> ReadSamples(const setup::Setup& setup, const pb::Job& job,
                                                   data::Split split) {
  return Read(setup, job, split, split);
}

Result<std::unique_ptr<data::Samples>> ReadPlainTrainingSamples(const setup::Setup& setup,
                                                                const pb::Job& job) {
  return Read(setup, job, data::Split::kTrain, data::Split::kTest);
}

}  // namespace tern::worker
