#include "worker/data/samples.h"

#include <utility>

#include "common/base/text.h"
#include "worker/data/datasets.h"

namespace tern::data {

Result<std::unique_ptr<Samples>> Samples::Make(std::unique_ptr<const Dataset> dataset,
                                               const pb::Data& data, uint64_t seed, Split split) {
  Result<Augmenter> augmenter = Augmenter::Make(data, seed, split, dataset->channels);
  if (!augmenter.ok()) return augmenter.status();
  std::unique_ptr<Samples> samples(new Samples(std::move(dataset), std::move(*augmenter), split));
  TERN_RETURN_IF_ERROR(samples->SetSize());
  return samples;
}

Result<std::unique_ptr<Samples>> Samples::Read(const pb::Data& data, uint64_t seed, Split split,
                                               const ReadOptions& options) {
  Result<std::unique_ptr<Dataset>> dataset = ReadDataset(data, split, options);
  if (!dataset.ok()) return dataset.status();
  return Make(std::move(*dataset), data, seed, split);
}

Status Samples::SetSize() {
  const uint64_t num_checked = dataset_->sizes.empty() ? 1 : count();
  for (uint64_t i = 0; i < num_checked; ++i) {
    if (i > 0 && dataset_->sizes[i] == dataset_->sizes[i - 1]) continue;
    const Result<Size> output_size = augmenter_.OutputSizeOf(dataset_->SizeOf(i));
    if (!output_size.ok()) return output_size.status().Within(dataset_->NameOf(i));
    if (i == 0) size_ = *output_size;
    if (*output_size == size_) continue;
    return Status(
        Code::kBadData,
        Cat("images of different sizes: ", dataset_->NameOf(0), " comes out as ", size_.width,
            " x ", size_.height, ", ", dataset_->NameOf(i), " as ", output_size->width, " x ",
            output_size->height,
            "; set data.augmentation.height and width, and resize_shorter where some are smaller"));
  }
  return Ok();
}

Result<std::optional<Augmenter::SampleId>> Samples::Decode(const Augmenter::SampleId& sample,
                                                           Scratch* scratch) const {
  for (uint64_t tries = 0; tries < count(); ++tries) {
    const uint64_t index = (sample.index + tries) % count();
    const Status decode_status = dataset_->Decode(index, &scratch->image);
    if (decode_status.ok()) return std::optional(Augmenter::SampleId{sample.epoch, index});
    TERN_RETURN_IF_ERROR(dataset_->damaged_images->Add(dataset_->NameOf(index), decode_status));
    if (split_ == Split::kTest) return std::optional<Augmenter::SampleId>();
  }
  return Status(Code::kBadData, Cat(dataset_->NameOf(0), " and all other images are damaged"));
}

Status Samples::FillFloats(const Augmenter::SampleId& sample, Scratch* scratch, float* out,
                           uint32_t* label) const {
  const auto decoded_sample = Decode(sample, scratch);
  if (!decoded_sample.ok()) return decoded_sample.status();
  *label = LabelOf(*decoded_sample);
  if (!decoded_sample->has_value()) return Ok();
  augmenter_.Apply(scratch->image, **decoded_sample, &scratch->workspace, out);
  return Ok();
}

Status Samples::FillBytes(const Augmenter::SampleId& sample, Scratch* scratch, uint8_t* out,
                          kernels::PixelDraws* draws, uint32_t* label) const {
  const auto decoded_sample = Decode(sample, scratch);
  if (!decoded_sample.ok()) return decoded_sample.status();
  *label = LabelOf(*decoded_sample);
  if (!decoded_sample->has_value()) return Ok();
  *draws = augmenter_.ScaleAndCrop(scratch->image, **decoded_sample,
                                   &scratch->workspace.scaled_image, out);
  return Ok();
}

uint32_t Samples::LabelOf(const std::optional<Augmenter::SampleId>& decoded_sample) const {
  return decoded_sample.has_value() ? dataset_->labels[decoded_sample->index] : kLeftOut;
}

}  // namespace tern::data
