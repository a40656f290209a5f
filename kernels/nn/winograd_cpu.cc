// The transformations of winograd.h on a CPU, vectorized, compiled once for each instruction set by
// Highway.
#include <algorithm>

#include "kernels/nn/winograd.h"

// GCC 12 warns wrongly about `mapped_columns` in MapBothWays, in the target without vectors.
#pragma GCC diagnostic ignored "-Wuninitialized"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/winograd_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kWinogradChannels>;
using V = hn::Vec<Tag>;

constexpr size_t kTile = kWinogradTile, kStep = kWinogradStep, kWindow = kWinogradWindow;

// Loads and stores `count` neighbouring channels: a full vector, or fewer at the end of the
// channels.
struct Lanes {
  explicit Lanes(size_t channels_left) : count(std::min(channels_left, hn::Lanes(Tag()))) {}
  bool is_full() const { return count == hn::Lanes(Tag()); }
  HWY_INLINE V Load(const float* from) const {
    return is_full() ? hn::LoadU(Tag(), from)
                     : hn::MaskedLoad(hn::FirstN(Tag(), count), Tag(), from);
  }
  HWY_INLINE void Store(V value, float* to) const {
    is_full() ? hn::StoreU(value, Tag(), to)
              : hn::BlendedStore(value, hn::FirstN(Tag(), count), Tag(), to);
  }
  size_t count;
};

// Cuts `count` channels into vectors. Calls process(lanes, c) for each vector; c is its first
// channel.
template <typename Process>
HWY_INLINE void ForChannels(size_t count, const Process& process) {
  for (size_t c = 0; c < count; c += hn::Lanes(Tag())) process(Lanes(count - c), c);
}

// Times returns factor * x, and Plus returns sum + factor * x.
HWY_INLINE V Times(float factor, V x) { return hn::Mul(hn::Set(Tag(), factor), x); }
HWY_INLINE V Plus(V sum, float factor, V x) { return hn::MulAdd(hn::Set(Tag(), factor), x, sum); }

// The functions Map... multiply a vector by one of the constant matrices A, B and G of winograd.h,
// or by its transpose. Elements of `in` and `out` are `step` apart.

// Writes the results for the interpolation points p and -p: the sum and the difference of `even`
// and `odd`.
HWY_INLINE void PutPair(V even, V odd, size_t step, V* out) {
  out[0] = hn::Add(even, odd);
  out[step] = hn::Sub(even, odd);
}

// Computes out = B^T in.
HWY_INLINE void MapInput(const V* in, size_t step, V* out) {
  const V x0 = in[0], x1 = in[step], x2 = in[2 * step], x3 = in[3 * step], x4 = in[4 * step],
          x5 = in[5 * step], x6 = in[6 * step], x7 = in[7 * step];
  const V even1 = hn::Add(Plus(x2, -4.25f, x4), x6), odd1 = hn::Add(Plus(x1, -4.25f, x3), x5);
  const V even2 = Plus(Plus(x6, 0.25f, x2), -1.25f, x4);
  const V odd2 = Plus(Plus(Times(0.5f, x1), -2.5f, x3), 2, x5);
  const V even_half = Plus(Plus(x6, 4, x2), -5, x4);
  const V odd_half = Plus(Plus(Times(2, x1), -2.5f, x3), 0.5f, x5);
  out[0] = Plus(hn::Sub(x0, x6), 5.25f, hn::Sub(x4, x2));
  PutPair(even1, odd1, step, out + step);
  PutPair(even2, odd2, step, out + 3 * step);
  PutPair(even_half, odd_half, step, out + 5 * step);
  out[7 * step] = Plus(hn::Sub(x7, x1), 5.25f, hn::Sub(x3, x5));
}

// The sums (even) and differences (odd) of the elements of `in` for the interpolation points p and
// -p, with p = 1, 2 and 1/2.
struct Pairs {
  HWY_INLINE Pairs(const V* in, size_t step)
      : even1(hn::Add(in[step], in[2 * step])),
        odd1(hn::Sub(in[step], in[2 * step])),
        even2(hn::Add(in[3 * step], in[4 * step])),
        odd2(hn::Sub(in[3 * step], in[4 * step])),
        even_half(hn::Add(in[5 * step], in[6 * step])),
        odd_half(hn::Sub(in[5 * step], in[6 * step])) {}
  V even1, odd1, even2, odd2, even_half, odd_half;
};

// Computes out = B in.
HWY_INLINE void MapInputBack(const V* in, size_t step, V* out) {
  const V u0 = in[0], u7 = in[7 * step];
  const Pairs u(in, step);
  out[0] = u0;
  out[step] = Plus(Plus(hn::Sub(u.odd1, u7), 0.5f, u.odd2), 2, u.odd_half);
  out[2 * step] = Plus(Plus(Plus(u.even1, -5.25f, u0), 0.25f, u.even2), 4, u.even_half);
  out[3 * step] = Plus(Plus(Times(5.25f, u7), -4.25f, u.odd1), -2.5f, hn::Add(u.odd2, u.odd_half));
  out[4 * step] =
      Plus(Plus(Plus(Times(5.25f, u0), -4.25f, u.even1), -1.25f, u.even2), -5, u.even_half);
  out[5 * step] = Plus(Plus(Plus(u.odd1, -5.25f, u7), 2, u.odd2), 0.5f, u.odd_half);
  out[6 * step] = hn::Add(hn::Sub(u.even1, u0), hn::Add(u.even2, u.even_half));
  out[7 * step] = u7;
}

// Computes out = A^T in.
HWY_INLINE void MapOutput(const V* in, size_t step, V* out) {
  const Pairs m(in, step);
  out[0] = hn::Add(hn::Add(in[0], m.even1), hn::Add(m.even2, m.even_half));
  out[step] = Plus(Plus(m.odd1, 2, m.odd2), 0.5f, m.odd_half);
  out[2 * step] = Plus(Plus(m.even1, 4, m.even2), 0.25f, m.even_half);
  out[3 * step] = Plus(Plus(hn::Add(m.odd1, in[7 * step]), 8, m.odd2), 0.125f, m.odd_half);
}

// Computes out = A in.
HWY_INLINE void MapOutputBack(const V* in, size_t step, V* out) {
  const V y0 = in[0], y1 = in[step], y2 = in[2 * step], y3 = in[3 * step];
  out[0] = y0;
  PutPair(hn::Add(y0, y2), hn::Add(y1, y3), step, out + step);
  PutPair(Plus(y0, 4, y2), Plus(Times(2, y1), 8, y3), step, out + 3 * step);
  PutPair(Plus(y0, 0.25f, y2), Plus(Times(0.5f, y1), 0.125f, y3), step, out + 5 * step);
  out[7 * step] = y3;
}

// Computes out = G in.
HWY_INLINE void MapFilter(const V* in, size_t step, V* out) {
  const V w0 = in[0], w1 = in[step], w2 = in[2 * step], w3 = in[3 * step], w4 = in[4 * step];
  // For p = 1, 2 and 1/2: 1 / the product of the differences between p and the other finite points.
  const float factor1 = -2.f / 9, factor2 = 1.f / 90, factor_half = 32.f / 45;
  out[0] = w0;
  PutPair(Times(factor1, hn::Add(hn::Add(w0, w2), w4)), Times(factor1, hn::Add(w1, w3)), step,
          out + step);
  PutPair(Times(factor2, Plus(Plus(w0, 4, w2), 16, w4)), Times(factor2, Plus(Times(2, w1), 8, w3)),
          step, out + 3 * step);
  PutPair(Times(factor_half, Plus(Plus(w0, 0.25f, w2), 0.0625f, w4)),
          Times(factor_half, Plus(Times(0.5f, w1), 0.125f, w3)), step, out + 5 * step);
  out[7 * step] = w4;
}

// Computes out = G^T in.
HWY_INLINE void MapFilterBack(const V* in, size_t step, V* out) {
  const Pairs f(in, step);
  const V even1 = Times(-2.f / 9, f.even1), odd1 = Times(-2.f / 9, f.odd1);
  const V even2 = Times(1.f / 90, f.even2), odd2 = Times(1.f / 90, f.odd2);
  const V even_half = Times(32.f / 45, f.even_half), odd_half = Times(32.f / 45, f.odd_half);
  out[0] = hn::Add(hn::Add(in[0], even1), hn::Add(even2, even_half));
  out[step] = Plus(Plus(odd1, 2, odd2), 0.5f, odd_half);
  out[2 * step] = Plus(Plus(even1, 4, even2), 0.25f, even_half);
  out[3 * step] = Plus(Plus(odd1, 8, odd2), 0.125f, odd_half);
  out[4 * step] = Plus(Plus(hn::Add(even1, in[7 * step]), 16, even2), 0.0625f, even_half);
}

// Applies `map` to all columns, and then to all rows: an array of in_size x in_size values becomes
// one of out_size x out_size. In `in` and `out`, rows are kTile values apart.
template <size_t in_size, size_t out_size, typename Map>
HWY_INLINE void MapBothWays(const Map& map, const V* in, V* out) {
  V mapped_columns[kTile * kTile];
  for (size_t column = 0; column < in_size; ++column)
    map(in + column, kTile, mapped_columns + column);
  for (size_t row = 0; row < out_size; ++row)
    map(mapped_columns + row * kTile, 1, out + row * kTile);
}

// The pixels of an image that one tile covers. The tile begins at (row, column) of the image, which
// may be outside the image; its rows [first_row, end_row) and columns [first_column, end_column)
// are inside.
struct Window {
  // The window of tile (i, j), moved up by `top` and left by `left` pixels, with `size` rows and
  // columns.
  Window(size_t i, size_t j, size_t top, size_t left, size_t size, const WinogradImage& image)
      : row(static_cast<ptrdiff_t>(i * kStep) - static_cast<ptrdiff_t>(top)),
        column(static_cast<ptrdiff_t>(j * kStep) - static_cast<ptrdiff_t>(left)),
        first_row(std::max<ptrdiff_t>(0, -row)),
        first_column(std::max<ptrdiff_t>(0, -column)),
        end_row(EndInside(row, size, image.height)),
        end_column(EndInside(column, size, image.width)) {}
  // Returns where, along one axis, the part of a tile inside the image ends, counted from the
  // beginning of the tile. The tile begins at position `begin` of the image and has `size`
  // elements; the image has `limit` elements.
  static ptrdiff_t EndInside(ptrdiff_t begin, size_t size, size_t limit) {
    return std::min<ptrdiff_t>(static_cast<ptrdiff_t>(size), static_cast<ptrdiff_t>(limit) - begin);
  }
  // Calls visit(index in the tile, number of the pixel) for all pixels that are inside the image.
  template <typename Visit>
  HWY_INLINE void ForPixels(const WinogradImage& image, const Visit& visit) const {
    for (ptrdiff_t y = first_row; y < end_row; ++y)
      for (ptrdiff_t x = first_column; x < end_column; ++x)
        visit(static_cast<size_t>(y) * kTile + static_cast<size_t>(x),
              static_cast<size_t>((row + y) * static_cast<ptrdiff_t>(image.width) + column + x));
  }
  ptrdiff_t row, column, first_row, first_column, end_row, end_column;
};

// Calls visit(i, j, offset) for all tiles (i, j). Element t of the tile is at offset +
// t * matrix_stride.
template <typename Visit>
HWY_INLINE void ForTiles(const WinogradTiles& tiles, const Visit& visit) {
  for (size_t i = 0; i < tiles.rows; ++i)
    for (size_t j = 0; j < tiles.columns; ++j)
      visit(i, j, (i * tiles.columns + j) * tiles.tile_stride);
}

void WinogradInput(const float* x, const WinogradImage& image, size_t top, size_t left,
                   const WinogradTiles& tiles, float* u) {
  ForChannels(image.channels, [&](Lanes lanes, size_t c) HWY_ATTR {
    ForTiles(tiles, [&](size_t i, size_t j, size_t offset) HWY_ATTR {
      V in[kTile * kTile], out[kTile * kTile];
      for (V& pixel : in) pixel = hn::Zero(Tag());
      Window(i, j, top, left, kTile, image)
          .ForPixels(image, [&](size_t element, size_t p)
                                HWY_ATTR { in[element] = lanes.Load(x + p * image.stride + c); });
      MapBothWays<kTile, kTile>(MapInput, in, out);
      for (size_t t = 0; t < kTile * kTile; ++t)
        lanes.Store(out[t], u + t * tiles.matrix_stride + offset + c);
    });
  });
}

void WinogradInputBackward(const float* du, const WinogradTiles& tiles, size_t top, size_t left,
                           const WinogradImage& image, float* dx) {
  ForChannels(image.channels, [&](Lanes lanes, size_t c) HWY_ATTR {
    for (size_t p = 0; p < image.height * image.width; ++p)
      lanes.Store(hn::Zero(Tag()), dx + p * image.stride + c);
    ForTiles(tiles, [&](size_t i, size_t j, size_t offset) HWY_ATTR {
      V in[kTile * kTile], out[kTile * kTile];
      for (size_t t = 0; t < kTile * kTile; ++t)
        in[t] = lanes.Load(du + t * tiles.matrix_stride + offset + c);
      MapBothWays<kTile, kTile>(MapInputBack, in, out);
      Window(i, j, top, left, kTile, image)
          .ForPixels(image, [&](size_t element, size_t p) HWY_ATTR {
            float* const to = dx + p * image.stride + c;
            lanes.Store(hn::Add(lanes.Load(to), out[element]), to);
          });
    });
  });
}

void WinogradOutput(const float* m, const WinogradTiles& tiles, const float* bias, bool relu,
                    const WinogradImage& image, float* y) {
  ForChannels(image.channels, [&](Lanes lanes, size_t c) HWY_ATTR {
    const V bias_of_channels = bias == nullptr ? hn::Zero(Tag()) : lanes.Load(bias + c);
    ForTiles(tiles, [&](size_t i, size_t j, size_t offset) HWY_ATTR {
      V in[kTile * kTile], out[kTile * kTile];
      for (size_t t = 0; t < kTile * kTile; ++t)
        in[t] = lanes.Load(m + t * tiles.matrix_stride + offset + c);
      MapBothWays<kTile, kStep>(MapOutput, in, out);
      Window(i, j, 0, 0, kStep, image).ForPixels(image, [&](size_t element, size_t p) HWY_ATTR {
        V value = hn::Add(out[element], bias_of_channels);
        if (relu)
          value = hn::Max(hn::Zero(Tag()), value);  // With this order of arguments a NaN stays NaN.
        lanes.Store(value, y + p * image.stride + c);
      });
    });
  });
}

void WinogradOutputBackward(const float* dy, const WinogradImage& image, const WinogradTiles& tiles,
                            float* dm, float* sum) {
  ForChannels(image.channels, [&](Lanes lanes, size_t c) HWY_ATTR {
    V total = hn::Zero(Tag());
    ForTiles(tiles, [&](size_t i, size_t j, size_t offset) HWY_ATTR {
      V in[kTile * kTile], out[kTile * kTile];
      for (size_t row = 0; row < kStep; ++row)
        for (size_t column = 0; column < kStep; ++column)
          in[row * kTile + column] = hn::Zero(Tag());
      Window(i, j, 0, 0, kStep, image).ForPixels(image, [&](size_t element, size_t p) HWY_ATTR {
        in[element] = lanes.Load(dy + p * image.stride + c);
        total = hn::Add(total, in[element]);
      });
      MapBothWays<kStep, kTile>(MapOutputBack, in, out);
      for (size_t t = 0; t < kTile * kTile; ++t)
        lanes.Store(out[t], dm + t * tiles.matrix_stride + offset + c);
    });
    if (sum != nullptr) lanes.Store(total, sum + c);
  });
}

// Transforms the filters of several outputs at a time, one per lane. The filters of neighbouring
// outputs are inputs * 25 floats apart in `w`, so that each lane is loaded separately. A tap is an
// element of a filter.
void WinogradFilter(const float* w, size_t outputs, size_t inputs, size_t input, float* f) {
  ForChannels(outputs, [&](Lanes lanes, size_t o) HWY_ATTR {
    V in[kTile * kTile], out[kTile * kTile];
    for (size_t tap = 0; tap < kWindow * kWindow; ++tap) {
      float taps[kWinogradChannels] = {};
      for (size_t k = 0; k < lanes.count; ++k)
        taps[k] = w[((o + k) * inputs + input) * kWindow * kWindow + tap];
      in[tap / kWindow * kTile + tap % kWindow] = hn::LoadU(Tag(), taps);
    }
    MapBothWays<kWindow, kTile>(MapFilter, in, out);
    for (size_t t = 0; t < kTile * kTile; ++t)
      lanes.Store(out[t], f + (t * inputs + input) * outputs + o);
  });
}

void WinogradFilterBackward(const float* df, size_t outputs, size_t inputs, size_t input,
                            float* dw) {
  ForChannels(outputs, [&](Lanes lanes, size_t o) HWY_ATTR {
    V in[kTile * kTile], out[kTile * kTile];
    for (size_t t = 0; t < kTile * kTile; ++t)
      in[t] = lanes.Load(df + (t * inputs + input) * outputs + o);
    MapBothWays<kTile, kWindow>(MapFilterBack, in, out);
    for (size_t tap = 0; tap < kWindow * kWindow; ++tap) {
      float taps[kWinogradChannels] = {};
      hn::StoreU(out[tap / kWindow * kTile + tap % kWindow], Tag(), taps);
      for (size_t k = 0; k < lanes.count; ++k)
        dw[((o + k) * inputs + input) * kWindow * kWindow + tap] = taps[k];
    }
  });
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(WinogradInput);
HWY_EXPORT(WinogradInputBackward);
HWY_EXPORT(WinogradOutput);
HWY_EXPORT(WinogradOutputBackward);
HWY_EXPORT(WinogradFilter);
HWY_EXPORT(WinogradFilterBackward);

void WinogradInput(const float* x, const WinogradImage& image, size_t top, size_t left,
                   const WinogradTiles& tiles, float* u) {
  HWY_DYNAMIC_DISPATCH(WinogradInput)(x, image, top, left, tiles, u);
}

void WinogradInputBackward(const float* du, const WinogradTiles& tiles, size_t top, size_t left,
                           const WinogradImage& image, float* dx) {
  HWY_DYNAMIC_DISPATCH(WinogradInputBackward)(du, tiles, top, left, image, dx);
}

void WinogradOutput(const float* m, const WinogradTiles& tiles, const float* bias, bool relu,
                    const WinogradImage& image, float* y) {
  HWY_DYNAMIC_DISPATCH(WinogradOutput)(m, tiles, bias, relu, image, y);
}

void WinogradOutputBackward(const float* dy, const WinogradImage& image, const WinogradTiles& tiles,
                            float* dm, float* sum) {
  HWY_DYNAMIC_DISPATCH(WinogradOutputBackward)(dy, image, tiles, dm, sum);
}

void WinogradFilter(const float* w, size_t outputs, size_t inputs, size_t input, float* f) {
  HWY_DYNAMIC_DISPATCH(WinogradFilter)(w, outputs, inputs, input, f);
}

void WinogradFilterBackward(const float* df, size_t outputs, size_t inputs, size_t input,
                            float* dw) {
  HWY_DYNAMIC_DISPATCH(WinogradFilterBackward)(df, outputs, inputs, input, dw);
}

}  // namespace tern::kernels
#endif
