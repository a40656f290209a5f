// Products of matrices (matrices.h), vectorized, compiled once for each instruction set by Highway.
// A panel is a range of columns of b as wide as one or two vectors; it is copied to contiguous
// rows, with zeros behind the last column. A block of up to 6 rows of the product is then computed
// in registers: for each row of the panel, 6 elements of a column of a times one or two vectors.
#include <algorithm>
#include <vector>

#include "kernels/nn/matrices.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/matrices_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using V = hn::Vec<Tag>;

constexpr size_t kRows = 6;

// Columns [first, first + num) of b as rows of `width` floats.
void CopyPanel(const Matrix& b, size_t inner, size_t first, size_t num, size_t width,
               float* panel) {
  for (size_t k = 0; k < inner; ++k, panel += width) {
    const float* from = b.at + k * b.row_stride + first * b.column_stride;
    for (size_t j = 0; j < num; ++j) panel[j] = from[j * b.column_stride];
    for (size_t j = num; j < width; ++j) panel[j] = 0;
  }
}

// Stores the first `num` lanes of v at `to`, or adds them to what is there.
HWY_INLINE void StoreLanes(V v, size_t num, bool accumulates, float* to) {
  const Tag d;
  if (num >= hn::Lanes(d)) {
    hn::StoreU(accumulates ? hn::Add(hn::LoadU(d, to), v) : v, d, to);
    return;
  }
  HWY_ALIGN float lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  for (size_t j = 0; j < num; ++j) to[j] = accumulates ? to[j] + lanes[j] : lanes[j];
}

// A block of the product: `rows` rows of a times a panel of `vectors` vectors, of which `columns`
// columns are stored.
template <size_t rows, size_t vectors>
void MultiplyBlock(const Matrix& a, const float* panel, size_t inner, size_t columns,
                   bool accumulates, float* product, size_t stride) {
  const Tag d;
  const size_t num_lanes = hn::Lanes(d);
  V sums[rows][vectors];
  for (auto& row : sums)
    for (V& sum : row) sum = hn::Zero(d);
  for (size_t k = 0; k < inner; ++k, panel += vectors * num_lanes) {
    V factors[vectors];
#pragma GCC unroll 2
    for (size_t v = 0; v < vectors; ++v) factors[v] = hn::LoadU(d, panel + v * num_lanes);
#pragma GCC unroll 6
    for (size_t i = 0; i < rows; ++i) {
      const V element = hn::Set(d, a.at[i * a.row_stride + k * a.column_stride]);
#pragma GCC unroll 2
      for (size_t v = 0; v < vectors; ++v) sums[i][v] = hn::MulAdd(element, factors[v], sums[i][v]);
    }
  }
#pragma GCC unroll 6
  for (size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (size_t v = 0; v < vectors; ++v) {
      if (v * num_lanes < columns)
        StoreLanes(sums[i][v], columns - v * num_lanes, accumulates,
                   product + i * stride + v * num_lanes);
    }
  }
}

// The last `num` rows, at most `rows`.
template <size_t rows, size_t vectors>
void MultiplyRows(size_t num, const Matrix& a, const float* panel, size_t inner, size_t columns,
                  bool accumulates, float* product, size_t stride) {
  if constexpr (rows > 1) {
    if (num < rows)
      return MultiplyRows<rows - 1, vectors>(num, a, panel, inner, columns, accumulates, product,
                                             stride);
  }
  MultiplyBlock<rows, vectors>(a, panel, inner, columns, accumulates, product, stride);
}

template <size_t vectors>
void MultiplyPanel(const ProductSize& size, Matrix a, const float* panel, size_t columns,
                   bool accumulates, float* product, size_t stride) {
  for (size_t i = 0; i < size.rows; i += kRows) {
    MultiplyRows<kRows, vectors>(std::min(kRows, size.rows - i), a, panel, size.inner, columns,
                                 accumulates, product, stride);
    a.at += kRows * a.row_stride;
    product += kRows * stride;
  }
}

void MultiplyMatrices(const ProductSize& size, const Matrix& a, const Matrix& b, bool accumulates,
                      float* product, size_t stride) {
  const size_t num_lanes = hn::Lanes(Tag());
  thread_local std::vector<float> panel;
  panel.resize(std::max(panel.size(), 2 * num_lanes * size.inner));
  for (size_t j = 0; j < size.columns;) {
    const size_t left = size.columns - j, width = left > num_lanes ? 2 * num_lanes : num_lanes;
    const size_t columns = std::min(left, width);
    CopyPanel(b, size.inner, j, columns, width, panel.data());
    if (width == num_lanes) {
      MultiplyPanel<1>(size, a, panel.data(), columns, accumulates, product + j, stride);
    } else {
      MultiplyPanel<2>(size, a, panel.data(), columns, accumulates, product + j, stride);
    }
    j += columns;
  }
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(MultiplyMatrices);

void MultiplyMatrices(const ProductSize& size, const Matrix& a, const Matrix& b, bool accumulates,
                      float* product, size_t stride) {
  HWY_DYNAMIC_DISPATCH(MultiplyMatrices)(size, a, b, accumulates, product, stride);
}

}  // namespace tern::kernels
#endif
