// Winograd's minimal filtering F(4 x 4, 5 x 5) (Lavin and Gray 2016): an image in tiles of 4 x 4
// outputs, each from 8 x 8 inputs; 64 multiplications an output tile and pair of channels instead
// of 400. In between stand 64 matrices, one an element of the transformed tile:
//
//   u = B^T x B    f = G w G^T    m_t = u_t f_t, t = 0 .. 63    y = A^T m A
//
// at the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity. The way back is each map's adjoint:
//
//   dm = A dy A^T    du_t = dm_t f_t^T    df_t = u_t^T dm_t    dx = sum over tiles of B du B^T dw =
//   G^T df G
//
// The products are the caller's (matrices [tiles, inputs], [inputs, outputs], [tiles, outputs]),
// and the threads: a call is about one image and up to 16 of its channels.
#pragma once

#include <cstddef>

namespace tern::kernels {

constexpr size_t kWinogradWindow = 5, kWinogradStep = 4, kWinogradTile = 8;
constexpr size_t kWinogradMatrices = kWinogradTile * kWinogradTile;
constexpr size_t kWinogradChannels = 16;  // of a call, at most

// Channels [0, channels) of pixel p at p * stride, rows of `width` pixels one after the other.
struct WinogradImage {
  size_t height = 0, width = 0, stride = 0, channels = 0;
};
// Tile i of the image, element t: at t * matrix + i * tile.
struct WinogradTiles {
  size_t rows = 0, columns = 0;
  size_t matrix = 0, tile = 0;  // floats
};

// Pixels outside the image are zeros; its first pixel lies `top` rows and `left` columns inside the
// first tile.
void WinogradInput(const float* x, const WinogradImage& image, size_t top, size_t left,
                   const WinogradTiles& tiles, float* u);
void WinogradInputBackward(const float* du, const WinogradTiles& tiles, size_t top, size_t left,
                           const WinogradImage& image, float* dx);
// y = A^T m A + bias (nullptr: none; `channels` of them), cut at zero where `relu`.
void WinogradOutput(const float* m, const WinogradTiles& tiles, const float* bias, bool relu,
                    const WinogradImage& image, float* y);
// And sum[c] = sum of dy, if not nullptr.
void WinogradOutputBackward(const float* dy, const WinogradImage& image, const WinogradTiles& tiles,
                            float* dm, float* sum);
// w: [outputs, inputs, 5, 5]; f: [64, inputs, outputs]. Of one input channel.
void WinogradFilter(const float* w, size_t outputs, size_t inputs, size_t input, float* f);
void WinogradFilterBackward(const float* df, size_t outputs, size_t inputs, size_t input,
                            float* dw);

}  // namespace tern::kernels
