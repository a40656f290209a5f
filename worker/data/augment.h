// Turns a decoded image into the net's input, by the fields of pb::Augmentation in their order.
//
// Everything random is a function of (seed, epoch, sample), so it does not depend on workers and
// threads. Draws are words of noise blocks (kernels/codes/philox.h: stream kAugmentation, rank 0,
// round = epoch, tensor = sample, level 0):
//
//   block 0      mirrored (its top bit), top, left, brightness
//   block 1      contrast
//   block 2 + t  area, aspect, top, left of try t of random_resized_crop, t < 10
//
// A word w selects w / 2^32 of a range, or number floor(w n / 2^32) of n. Changing this layout
// would change the results of jobs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "kernels/nn/pixels.h"
#include "proto/job.pb.h"
#include "worker/data/dataset.h"
#include "worker/data/image.h"
#include "worker/data/resize.h"

namespace tern::data {

class Augmenter {
 public:
  // kBadJob: mean or deviation does not have one value per channel, or random_resized_crop has no
  // height and width.
  static Result<Augmenter> Make(const pb::Data& data, uint64_t seed, Split split,
                                uint32_t channels);

  // The output size for an image of that size. kBadData, a sentence without the image's name, if
  // the crop is larger than the image.
  Result<Size> OutputOf(Size image) const;

  // A sample in an epoch. Its random draws depend on both numbers.
  struct SampleId {
    uint64_t epoch = 0, index = 0;
  };
  // Workspace of one thread.
  struct Workspace {
    Image scaled;
    std::vector<uint8_t> bytes;
  };
  // Writes the image as floats, [C, H, W] with the size OutputOf returns. REQUIRES that OutputOf is
  // ok, and an image with `channels` channels. Any thread.
  void Apply(const Image& image, const SampleId& sample, Workspace* workspace, float* out) const;
  // The first half of Apply: scaling, padding and cropping. rule() turns the resulting bytes into
  // the same floats, on the CPU or on a GPU.
  kernels::PixelDraws Cut(const Image& image, const SampleId& sample, Image* scaled,
                          uint8_t* out) const;
  const kernels::PixelRule& rule() const { return tables_.rule(); }

 private:
  using Draws = std::array<uint32_t, 4>;

  Augmenter(const pb::Data& data, uint64_t seed, Split split, uint32_t channels);
  Size ScaledOf(Size image) const;
  Size CropOf(Size scaled) const;
  Draws DrawsOf(const SampleId& sample, uint32_t block) const;
  Box DrawBox(const Image& image, const SampleId& sample) const;
  const Image& Scale(const Image& image, const SampleId& sample, Image* scaled) const;
  void Crop(const Image& image, const Draws& draws, uint8_t* out) const;

  pb::Augmentation fields_;  // in evaluation without the fields that are for training only
  uint64_t seed_;
  kernels::PixelTables tables_;
};

}  // namespace tern::data
