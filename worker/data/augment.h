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
  // The image as floats, [C, H, W] of OutputOf. `scaled` is room to work in. REQUIRES that OutputOf
  // is ok for it, and `channels`. Any thread.
  void Apply(const Image& image, const Place& place, Image* scaled, float* out) const;

 private:
  using Table = std::array<float, 256>;
  using Draws = std::array<uint32_t, 4>;

  Augmenter(const pb::Data& data, uint64_t seed, Split split, uint32_t channels);
  float Normalized(uint32_t channel, float value) const;
  Size ScaledOf(Size image) const;
  Size CropOf(Size scaled) const;
  Draws DrawsOf(const Place& place, uint32_t block) const;
  Box DrawBox(const Image& image, const Place& place) const;
  void Crop(const Image& image, const Draws& draws, float* out) const;
  void Color(const Place& place, const Draws& draws, uint64_t plane, float* out) const;

  pb::Augmentation words_;  // without what is for training alone, in evaluation
  uint64_t seed_;
  uint32_t channels_;
  bool standardize_, colors_;
  float scale_, offset_;
  std::vector<float> mean_, deviation_;
  std::vector<Table> tables_;  // [C], of a byte: what the net sees, or where colors change itself
};

}  // namespace tern::data
