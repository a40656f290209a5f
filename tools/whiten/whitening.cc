#include "tools/whiten/whitening.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace tern::tools {

void Whitening::Add(std::span<const float> image, uint32_t height, uint32_t width) {
  const uint32_t n = elements();
  for (uint32_t top = 0; top + kernel_ <= height; top += stride_) {
    for (uint32_t left = 0; left + kernel_ <= width; left += stride_) {
      uint32_t k = 0;
      for (uint32_t c = 0; c < channels_; ++c) {
        for (uint32_t y = top; y < top + kernel_; ++y) {
          for (uint32_t x = left; x < left + kernel_; ++x)
            patch_[k++] = image[(size_t{c} * height + y) * width + x];
        }
      }
      for (uint32_t i = 0; i < n; ++i) {
        double* const row = products_.data() + size_t{i} * n;
        for (uint32_t j = 0; j <= i; ++j) row[j] += patch_[i] * patch_[j];
      }
      ++num_patches_;
    }
  }
}

Result<std::vector<float>> Whitening::Weights(uint32_t outputs) const {
  if (num_patches_ == 0) return Status(Code::kBadData, "no image is as large as the kernel");
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto n = static_cast<Eigen::Index>(elements());
  const Matrix covariance =
      Eigen::Map<const Matrix>(products_.data(), n, n) / static_cast<double>(num_patches_);
  // Reads only the diagonal and what is below it. Its eigenvalues ascend.
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(covariance);
  if (solver.info() != Eigen::Success || !(solver.eigenvalues()[n - 1] > 0))
    return Status(Code::kBadData, "the images are all zeros, or have values that are not finite");
  std::vector<float> weights(size_t{outputs} * elements());
  for (uint32_t output = 0; output < outputs / 2; ++output) {
    const Eigen::Index i = n - 1 - static_cast<Eigen::Index>(output);
    const Eigen::VectorXd vector = solver.eigenvectors().col(i);
    const double largest = *std::max_element(
        vector.begin(), vector.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
    const double factor = (largest < 0 ? -1 : 1) /
                          std::sqrt(std::max(solver.eigenvalues()[i], 0.0) + kWhiteningEpsilon);
    for (Eigen::Index k = 0; k < n; ++k) {
      const auto element = static_cast<size_t>(k);
      const auto weight = static_cast<float>(factor * vector[k]);
      weights[size_t{output} * elements() + element] = weight;
      weights[(size_t{output} + outputs / 2) * elements() + element] = -weight;
    }
  }
  return weights;
}

}  // namespace tern::tools
