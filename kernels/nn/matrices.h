// Products of matrices on a CPU, for matrices of at most some hundred rows and columns.
#pragma once

#include <cstddef>

namespace tern::kernels {

// A matrix. Element (i, j) is at[i * row_stride + j * column_stride]; of a transposed matrix the
// strides are exchanged.
struct Matrix {
  const float* at = nullptr;
  size_t row_stride = 0, column_stride = 1;
};

// The number of rows of a and the product, of columns of b and the product, and of columns of a and
// rows of b.
struct ProductSize {
  size_t rows = 0, columns = 0, inner = 0;
};

// Sets product = a b or, if `accumulates`, adds a b to `product`, whose element (i, j) is
// product[i * stride + j]. Adds in fp32, in the order of the inner index; a product and its sum are
// rounded once where the CPU can do that.
void MultiplyMatrices(const ProductSize& size, const Matrix& a, const Matrix& b, bool accumulates,
                      float* product, size_t stride);

}  // namespace tern::kernels
