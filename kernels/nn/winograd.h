// Winograd's minimal filtering F(4 x 4, 5 x 5) (Lavin and Gray 2016): an image is cut into tiles of
// 4 x 4 outputs, each computed from 8 x 8 inputs, with 64 multiplications per output tile and pair
// of channels instead of 400. Between the maps stand 64 matrices, one per element t = 0 .. 63 of
// the transformed tile:
//
//   u   = B^T x B
//   f   = G w G^T
//   m_t = u_t f_t
//   y   = A^T m A
//
// at the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity. The way back is each map's adjoint:
//
//   dm   = A dy A^T
//   du_t = dm_t f_t^T
//   df_t = u_t^T dm_t
//   dx   = sum over tiles of B du B^T
//   dw   = G^T df G
//
// The caller multiplies the matrices (u [tiles, inputs], f [inputs, outputs], m [tiles, outputs])
// and does the threading: a call processes one image and up to 16 of its channels.
#pragma once

#include <cstddef>

namespace tern::kernels {

constexpr size_t kWinogradWindow = 5, kWinogradStep = 4, kWinogradTile = 8;
constexpr size_t kWinogradMatrices = kWinogradTile * kWinogradTile;
constexpr size_t kWinogradChannels = 16;  // per call, at most

// Channels [0, channels) of pixel p are at p * stride; rows of `width` pixels follow each other.
struct WinogradImage {
  size_t height = 0, width = 0, stride = 0, channels = 0;
};
// Element t of tile i is at t * matrix_stride + i * tile_stride.
struct WinogradTiles {
  size_t rows = 0, columns = 0;
  size_t matrix_stride = 0, tile_stride = 0;  // in floats
};

// Pixels outside the image are zeros; the first pixel is at (top, left) of the first tile.
void WinogradInput(const float* x, const WinogradImage& image, size_t top, size_t left,
                   const WinogradTiles& tiles, float* u);
void WinogradInputBackward(const float* du, const WinogradTiles& tiles, size_t top, size_t left,
                           const WinogradImage& image, float* dx);
// y = A^T m A + bias (nullptr: none; `channels` values), with a ReLU if `relu`.
void WinogradOutput(const float* m, const WinogradTiles& tiles, const float* bias, bool relu,
                    const WinogradImage& image, float* y);
// Also sets sum[c] = sum of dy, if `sum` is not nullptr.
void WinogradOutputBackward(const float* dy, const WinogradImage& image, const WinogradTiles& tiles,
                            float* dm, float* sum);
// `w` is [outputs, inputs, 5, 5], and `f` is [64, inputs, outputs]. Processes one input channel.
void WinogradFilter(const float* w, size_t outputs, size_t inputs, size_t input, float* f);
void WinogradFilterBackward(const float* df, size_t outputs, size_t inputs, size_t input,
                            float* dw);

}  // namespace tern::kernels
