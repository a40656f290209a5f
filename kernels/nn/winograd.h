// Convolution with 5 x 5 filters by Winograd's minimal filtering F(4 x 4, 5 x 5) (Lavin and Gray
// 2016). The output is cut into tiles of 4 x 4 pixels. Each tile is computed from a tile of 8 x 8
// inputs, with 64 instead of 400 multiplications per pair of input and output channel. Inputs x and
// filters w are transformed to u and f, with 64 elements t = 0 .. 63 per tile and filter; then for
// each t a matrix product over the input channels gives m, which is transformed to the outputs y:
//
//   u   = B^T x B
//   f   = G w G^T
//   m_t = u_t f_t
//   y   = A^T m A
//
// A, B and G are the constant matrices of the algorithm for the interpolation points 0, 1, -1, 2,
// -2, 1/2, -1/2 and infinity. The backward pass is the adjoint of each step:
//
//   dm   = A dy A^T
//   du_t = dm_t f_t^T
//   df_t = u_t^T dm_t
//   dx   = sum over tiles of B du B^T
//   dw   = G^T df G
//
// The functions below do the transformations. The caller multiplies the matrices (for each t: u
// [tiles, inputs], f [inputs, outputs], m [tiles, outputs]) and runs the threads: a call processes
// one image and up to 16 of its channels, or the filters of one input channel.
#pragma once

#include <cstddef>

namespace tern::kernels {

// Rows (and columns) of a filter, of a tile of outputs, and of a tile of inputs.
constexpr size_t kWinogradWindow = 5, kWinogradStep = 4, kWinogradTile = 8;
constexpr size_t kWinogradMatrices = kWinogradTile * kWinogradTile;  // the number of elements t
constexpr size_t kWinogradChannels = 16;  // the most channels of an image in a call

// The layout of an image, or of a range of its channels. The `channels` channels of pixel p begin
// at offset p * stride; pixels are counted row by row.
struct WinogradImage {
  size_t height = 0, width = 0, stride = 0, channels = 0;
};
// The layout of transformed tiles, of which there are rows * columns; i counts tiles row by row.
// The channels of element t of tile i begin at offset t * matrix_stride + i * tile_stride.
struct WinogradTiles {
  size_t rows = 0, columns = 0;
  size_t matrix_stride = 0, tile_stride = 0;  // in floats
};

// Transforms inputs x to u, and gradients du to dx. The first pixel of the image is at row `top`
// and column `left` of the first tile; pixels outside the image are zero.
void WinogradInput(const float* x, const WinogradImage& image, size_t top, size_t left,
                   const WinogradTiles& tiles, float* u);
void WinogradInputBackward(const float* du, const WinogradTiles& tiles, size_t top, size_t left,
                           const WinogradImage& image, float* dx);
// Transforms m to outputs: y = A^T m A + bias, with a ReLU if `relu`. `bias` has a value per
// channel, and may be nullptr.
void WinogradOutput(const float* m, const WinogradTiles& tiles, const float* bias, bool relu,
                    const WinogradImage& image, float* y);
// Transforms gradients dy to dm. If `sum` is not nullptr, also sets sum[c] to the sum of dy of
// channel c.
void WinogradOutputBackward(const float* dy, const WinogradImage& image, const WinogradTiles& tiles,
                            float* dm, float* sum);
// Transforms filters w, [outputs, inputs, 5, 5], to f, [64, inputs, outputs], and gradients df to
// dw, for one input channel, number `input`.
void WinogradFilter(const float* w, size_t outputs, size_t inputs, size_t input, float* f);
void WinogradFilterBackward(const float* df, size_t outputs, size_t inputs, size_t input,
                            float* dw);

}  // namespace tern::kernels
