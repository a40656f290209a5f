// Products of matrices against sums in double precision.
#include "kernels/nn/matrices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/codes/philox.h"

namespace tern::kernels {
namespace {

std::vector<float> RandomValues(uint32_t tensor, size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>(Draw32({.seed = 4, .tensor = tensor}, i) * 0x1p-31 - 1);
  return values;
}

// A matrix of so many rows and columns, with two floats behind each row or, transposed, column.
struct Stored {
  Stored(uint32_t tensor, size_t rows, size_t columns, bool is_transposed)
      : stride((is_transposed ? rows : columns) + 2),
        values(RandomValues(tensor, stride * (is_transposed ? columns : rows))),
        matrix{values.data(), is_transposed ? 1 : stride, is_transposed ? stride : 1} {}
  double At(size_t i, size_t j) const {
    return double{matrix.at[i * matrix.row_stride + j * matrix.column_stride]};
  }
  const size_t stride;
  const std::vector<float> values;
  const Matrix matrix;
};

class ProductsOf : public testing::TestWithParam<ProductSize> {
 protected:
  // Also that what is beyond the product stays as it is.
  static void ExpectProduct(const Stored& a, const Stored& b, bool accumulates) {
    const auto [rows, columns, inner] = GetParam();
    const size_t stride = columns + 3;
    const std::vector<float> before = RandomValues(3, rows * stride);
    std::vector<float> product = before;
    MultiplyMatrices(GetParam(), a.matrix, b.matrix, accumulates, product.data(), stride);
    const double rounding = 1e-6 + 4e-7 * std::sqrt(static_cast<double>(inner));
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        double expected = accumulates ? double{before[i * stride + j]} : 0;
        for (size_t k = 0; k < inner; ++k) expected += a.At(i, k) * b.At(k, j);
        EXPECT_NEAR(product[i * stride + j], expected, rounding) << i << ", " << j;
      }
      for (size_t j = columns; j < stride; ++j)
        EXPECT_EQ(product[i * stride + j], before[i * stride + j]) << i << ", " << j;
    }
  }
};

TEST_P(ProductsOf, EqualSumsInDouble) {
  const auto [rows, columns, inner] = GetParam();
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      const Stored a(1, rows, inner, a_transposed), b(2, inner, columns, b_transposed);
      ExpectProduct(a, b, /*accumulates=*/false);
      ExpectProduct(a, b, /*accumulates=*/true);
    }
  }
}

// Rows and columns below, at and beyond the sizes of blocks and vectors of all CPUs.
INSTANTIATE_TEST_SUITE_P(Sizes, ProductsOf,
                         testing::Values(ProductSize{1, 1, 1}, ProductSize{6, 16, 5},
                                         ProductSize{7, 17, 20}, ProductSize{36, 50, 20},
                                         ProductSize{20, 50, 36}, ProductSize{5, 3, 100},
                                         ProductSize{13, 33, 4}, ProductSize{12, 64, 9},
                                         ProductSize{3, 8, 0}));

}  // namespace
}  // namespace tern::kernels
