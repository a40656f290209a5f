// From a decoded image to the numbers that a net sees: the words of pb::Augmentation, in their
// order.
//
// Everything random is a function of (seed, epoch, sample), so the same whatever the workers and
// threads. Draws are words of noise blocks (kernels/philox.h: stream kAugmentation, rank 0, round =
// epoch, tensor = sample, level 0):
//   block 0: mirrored (its top bit), top, left, brightness     block 1: contrast
//   block 2 + t: area, aspect, top, left of the t-th try of random_resized_crop, t < 10
// A word w is w / 2^32 of its range; of n places, floor(w n / 2^32). Runs of a job depend on this.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "kernels/pixels.h"
#include "proto/job.pb.h"
#include "worker/data/dataset.h"
#include "worker/data/image.h"
#include "worker/data/resize.h"

namespace tern::data {

class Augmenter {
 public:
  // kBadJob: mean and deviation that are not one a channel, random_resized_crop without sides.
  static Result<Augmenter> Make(const pb::Data& data, uint64_t seed, Split split,
                                uint32_t channels);

  // What comes of an image of that size; kBadData, a sentence without the image's name, where the
  // crop is larger than what it is cut from.
  Result<Size> OutputOf(Size image) const;

  // Where a sample is, for what is random.
  struct Place {
    uint64_t epoch = 0, sample = 0;
  };
  // Room to work in.
  struct Room {
    Image scaled;
    std::vector<uint8_t> bytes;
  };
  // The image as floats, [C, H, W] of OutputOf. REQUIRES that OutputOf is ok for it, and
  // `channels`. Any thread.
  void Apply(const Image& image, const Place& place, Room* room, float* out) const;
  // The first half of that, scaled, padded and cut: bytes of which `rule` makes those floats, here
  // or on a GPU.
  kernels::PixelDraws Cut(const Image& image, const Place& place, Image* scaled,
                          uint8_t* out) const;
  const kernels::PixelRule& rule() const { return tables_.rule(); }

 private:
  using Draws = std::array<uint32_t, 4>;

  Augmenter(const pb::Data& data, uint64_t seed, Split split, uint32_t channels);
  Size ScaledOf(Size image) const;
  Size CropOf(Size scaled) const;
  Draws DrawsOf(const Place& place, uint32_t block) const;
  Box DrawBox(const Image& image, const Place& place) const;
  const Image& Scale(const Image& image, const Place& place, Image* scaled) const;
  void Crop(const Image& image, const Draws& draws, uint8_t* out) const;

  pb::Augmentation words_;  // without what is for training alone, in evaluation
  uint64_t seed_;
  kernels::PixelTables tables_;
};

}  // namespace tern::data
