// Turns a decoded image into the net's input: scales, pads, crops, mirrors, and changes brightness
// and contrast as the job's data.augmentation (pb::Augmentation) says, in this order. Then maps
// pixels to floats by data.mean and data.std, or data.scale and data.offset, and standardizes the
// image if data.standardize is set.
//
// Every random choice is a function of (seed, epoch, index of the sample), so that results do not
// depend on the number of workers or threads. The random numbers are the 32-bit words of Philox
// blocks of four words (kernels/codes/philox.h). The key of a block: stream kAugmentation, rank 0,
// round = epoch, tensor = index of the sample, level 0. The words of each block choose, in order:
//
//   block 0      whether to mirror (top bit of the word; with mirror_in_turn that of epoch 0, which
//                odd epochs invert), top and left of the crop, brightness
//   block 1      contrast
//   block 2 + t  area, logarithm of the aspect (width / height), top and left of the box in attempt
//                t < 10 of random_resized_crop
//
// A word w chooses low + w / 2^32 * (high - low) in a range [low, high), or floor(w n / 2^32) in
// 0 .. n - 1. Another use of the words would change the results of jobs.
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
  // Returns kBadJob if data.mean or data.std is set and does not have one value per channel, or if
  // random_resized_crop is set without height and width.
  static Result<Augmenter> Make(const pb::Data& data, uint64_t seed, Split split,
                                uint32_t channels);

  // Returns the size of the output for an image of this size. Returns kBadData if the crop is
  // larger than the scaled and padded image, or if the scaled image has too many pixels; the
  // message does not name the image.
  Result<Size> OutputSizeOf(Size image_size) const;

  // One use of a sample: the random numbers of the augmentation depend on both members.
  struct SampleId {
    uint64_t epoch = 0, index = 0;
  };
  // Memory for intermediate results. Each thread needs its own.
  struct Workspace {
    Image scaled_image;
    std::vector<uint8_t> bytes;
  };
  // Augments `image` and writes it to `out` as floats, [C, H, W] with the size that OutputSizeOf
  // returns. REQUIRES that OutputSizeOf returns no error, and an image with the number of channels
  // that was passed to Make. Any thread.
  void Apply(const Image& image, const SampleId& sample, Workspace* workspace, float* out) const;
  // What Apply does first: scales, pads and crops `image`, and writes it to `out` as bytes, [C, H,
  // W]. `scaled_image` is memory for the scaled image. Returns the random numbers with which rule()
  // then turns the bytes into the floats of Apply, on the CPU or on a GPU.
  kernels::PixelDraws ScaleAndCrop(const Image& image, const SampleId& sample, Image* scaled_image,
                                   uint8_t* out) const;
  const kernels::PixelRule& rule() const { return pixel_tables_.rule(); }

 private:
  // The four words of one Philox block.
  using RandomWords = std::array<uint32_t, 4>;

  Augmenter(const pb::Data& data, uint64_t seed, Split split, uint32_t channels);
  Size ScaledSizeOf(Size image_size) const;
  Size CropSizeOf(Size scaled_size) const;
  RandomWords RandomWordsOf(const SampleId& sample, uint32_t block) const;
  bool IsMirrored(const SampleId& sample, const RandomWords& words) const;
  Box DrawBox(const Image& image, const SampleId& sample) const;
  const Image& ScaleImage(const Image& image, const SampleId& sample, Image* scaled_image) const;
  void CropImage(const Image& image, const RandomWords& words, uint8_t* out) const;

  pb::Augmentation options_;  // For the test set, without the fields that are for training only.
  uint64_t seed_;
  kernels::PixelTables pixel_tables_;
};

}  // namespace tern::data
