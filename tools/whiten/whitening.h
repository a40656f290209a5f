// The weights of a convolution that whitens patches of images: its outputs, over all patches of the
// images, have mean squares of about 1 and are uncorrelated. As in arXiv 2404.00498, section 3.2.
//
//   C = mean of p p^T over the patches p, as vectors     e_i, v_i: its eigenvalues, from the
//                                                        largest, and eigenvectors
//   weights of output i      =  v_i / sqrt(e_i + epsilon)     for i < outputs / 2
//   weights of i + outputs/2 = -v_i / sqrt(e_i + epsilon)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

inline constexpr double kWhiteningEpsilon = 5e-4;

class Whitening {
 public:
  // For patches of `kernel` x `kernel` pixels of `channels` channels, `stride` pixels apart.
  Whitening(uint32_t channels, uint32_t kernel, uint32_t stride = 1)
      : channels_(channels),
        kernel_(kernel),
        stride_(stride),
        products_(size_t{elements()} * elements()),
        patch_(elements()) {}

  // The number of elements of a patch.
  uint32_t elements() const { return channels_ * kernel_ * kernel_; }
  // Counts the patches that lie in the image, [channels, height, width].
  void Add(std::span<const float> image, uint32_t height, uint32_t width);
  // Returns the weights, [outputs, channels, kernel, kernel]. Of v_i and -v_i, that whose largest
  // element by magnitude is positive comes first. kBadData if there was no patch, or if no pixel
  // differed from 0. REQUIRES an even number of outputs, at most 2 * elements().
  Result<std::vector<float>> Weights(uint32_t outputs) const;

 private:
  const uint32_t channels_, kernel_, stride_;
  std::vector<double> products_;  // the sums of p p^T, on and below the diagonal
  uint64_t num_patches_ = 0;
  std::vector<double> patch_;
};

}  // namespace tern::tools
