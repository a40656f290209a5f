// The training or test set as input for the net: its images, decoded and augmented, with their
// labels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "worker/data/augment.h"
#include "worker/data/dataset.h"

namespace tern::data {

class Samples {
 public:
  static constexpr uint32_t kLeftOut = 0xffffffff;  // The label of a damaged test image.

  // Takes ownership of `dataset`. `split`: whether that is the training or the test set, because
  // augmentation differs. kBadData if the augmented images do not all have the same size; the
  // message names the job keys that help. Also returns the errors of Augmenter::Make.
  static Result<std::unique_ptr<Samples>> Make(std::unique_ptr<const Dataset> dataset,
                                               const pb::Data& data, uint64_t seed, Split split);
  // Reads the data set with ReadDataset, and then does the same as Make.
  static Result<std::unique_ptr<Samples>> Read(const pb::Data& data, uint64_t seed, Split split,
                                               const ReadOptions& options);

  const Dataset& dataset() const { return *dataset_; }
  uint64_t count() const { return dataset_->count(); }
  // The shape [C, H, W] of an augmented image: channels(), and size() in pixels. image_size() is
  // the number of its elements.
  uint32_t channels() const { return dataset_->channels; }
  Size size() const { return size_; }
  uint64_t image_size() const { return uint64_t{channels()} * size_.height * size_.width; }

  // Memory for intermediate results of FillFloats and FillBytes. Each thread needs its own Scratch.
  struct Scratch {
    Image image;
    Augmenter::Workspace workspace;
  };
  // Decodes and augments `sample`, and writes its floats to out[0, image_size()) and its label to
  // *label. A damaged image is reported and counted; of the training set, the next undamaged image
  // replaces it, of the test set it is left out: its label is kLeftOut, and its floats are
  // unspecified. kBadData if more than data.max_corrupt images, or all training images, are
  // damaged. Any thread may call this.
  Status FillFloats(const Augmenter::SampleId& sample, Scratch* scratch, float* out,
                    uint32_t* label) const;
  // The same as FillFloats, but writes the image as bytes, and to *draws the random numbers by
  // which rule() turns the bytes into floats.
  Status FillBytes(const Augmenter::SampleId& sample, Scratch* scratch, uint8_t* out,
                   kernels::PixelDraws* draws, uint32_t* label) const;
  const kernels::PixelRule& rule() const { return augmenter_.rule(); }

 private:
  Samples(std::unique_ptr<const Dataset> dataset, Augmenter augmenter, Split split)
      : dataset_(std::move(dataset)), augmenter_(std::move(augmenter)), split_(split) {}
  // Sets size_; fails if the augmented images differ in size.
  Status SetSize();
  // Decodes the sample or its replacement into scratch->image; returns the sample used, or nothing
  // if the image is left out.
  Result<std::optional<Augmenter::SampleId>> Decode(const Augmenter::SampleId& sample,
                                                    Scratch* scratch) const;
  uint32_t LabelOf(const std::optional<Augmenter::SampleId>& decoded_sample) const;

  const std::unique_ptr<const Dataset> dataset_;
  const Augmenter augmenter_;
  const Split split_;
  Size size_;
};

}  // namespace tern::data
