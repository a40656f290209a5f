// A split of a data set as the net's input: its images, decoded and augmented, with their labels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "worker/data/augment.h"
#include "worker/data/dataset.h"

namespace tern::data {

class Samples {
 public:
  // Takes ownership of `dataset`. kBadData, with the key to set, if its images do not all get one
  // size; kBadJob as from Augmenter::Make.
  static Result<std::unique_ptr<Samples>> Make(std::unique_ptr<const Dataset> dataset,
                                               const pb::Data& data, uint64_t seed, Split split);
  // Reads the split with ReadDataset first.
  static Result<std::unique_ptr<Samples>> Read(const pb::Data& data, uint64_t seed, Split split,
                                               const ReadOptions& options);

  const Dataset& dataset() const { return *dataset_; }
  uint64_t count() const { return dataset_->count(); }
  // The shape of a sample, as floats [C, H, W].
  uint32_t channels() const { return dataset_->channels; }
  Size size() const { return size_; }
  uint64_t image_size() const { return uint64_t{channels()} * size_.height * size_.width; }

  // Workspace, one per thread.
  struct Scratch {
    Image image;
    Augmenter::Workspace workspace;
  };
  // Writes the floats of `sample` to out[0, image_size()). A damaged image is logged, counted and
  // replaced by the next one of the set; kBadData once more than data.max_corrupt are damaged. Any
  // thread.
  Status Fill(const Augmenter::SampleId& sample, Scratch* scratch, float* out,
              uint32_t* label) const;
  // The same as bytes, which rule() turns into floats.
  Status FillBytes(const Augmenter::SampleId& sample, Scratch* scratch, uint8_t* out,
                   kernels::PixelDraws* draws, uint32_t* label) const;
  const kernels::PixelRule& rule() const { return augmenter_.rule(); }

 private:
  Samples(std::unique_ptr<const Dataset> dataset, Augmenter augmenter)
      : dataset_(std::move(dataset)), augmenter_(std::move(augmenter)) {}
  Status TakeSize();
  // Decodes the sample or its replacement into scratch->image; returns the sample used.
  Result<Augmenter::SampleId> Decode(const Augmenter::SampleId& sample, Scratch* scratch) const;

  const std::unique_ptr<const Dataset> dataset_;
  const Augmenter augmenter_;
  Size size_;
};

}  // namespace tern::data
