#include <algorithm>

#include "kernels/winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/winograd_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kWinogradChannels>;
using V = hn::Vec<Tag>;

constexpr size_t kTile = kWinogradTile, kStep = kWinogradStep, kWindow = kWinogradWindow;

// Some neighbouring channels: a vector, or the first few lanes of one.
struct Lanes {
  explicit Lanes(size_t n) : count(std::min(n, hn::Lanes(Tag()))) {}
  bool whole() const { return count == hn::Lanes(Tag()); }
  HWY_INLINE V Load(const float* from) const {
    return whole() ? hn::LoadU(Tag(), from) : hn::MaskedLoad(hn::FirstN(Tag(), count), Tag(), from);
  }
  HWY_INLINE void Store(V value, float* to) const {
    whole() ? hn::StoreU(value, Tag(), to)
            : hn::BlendedStore(value, hn::FirstN(Tag(), count), Tag(), to);
  }
  size_t count;
};

// pass(lanes, c) for the channels c of `count`, a vector of them at a time.
template <typename Pass>
HWY_INLINE void ForChannels(size_t count, const Pass& pass) {
  for (size_t c = 0; c < count; c += hn::Lanes(Tag())) pass(Lanes(count - c), c);
}

HWY_INLINE V Times(float factor, V x) { return hn::Mul(hn::Set(Tag(), factor), x); }
HWY_INLINE V Plus(V sum, float factor, V x) { return hn::MulAdd(hn::Set(Tag(), factor), x, sum); }

// The maps of one direction; `in` and `out` are `step` apart.
// B^T
HWY_INLINE void MapInput(const V* in, size_t step, V* out) {
  const V x0 = in[0], x1 = in[step], x2 = in[2 * step], x3 = in[3 * step], x4 = in[4 * step],
          x5 = in[5 * step];
  const V even = Plus(x4, -4, x2), odd = Plus(x3, -4, x1);
  const V near = hn::Sub(x4, x2), far = Times(2, hn::Sub(x3, x1));
  out[0] = Plus(Plus(x4, -5, x2), 4, x0);
  out[step] = hn::Add(even, odd);
  out[2 * step] = hn::Sub(even, odd);
  out[3 * step] = hn::Add(near, far);
  out[4 * step] = hn::Sub(near, far);
  out[5 * step] = Plus(Plus(x5, -5, x3), 4, x1);
}

// B
HWY_INLINE void MapInputBack(const V* in, size_t step, V* out) {
  const V u0 = in[0], u5 = in[5 * step];
  const V sum = hn::Add(in[step], in[2 * step]), apart = hn::Sub(in[step], in[2 * step]);
  const V sum2 = hn::Add(in[3 * step], in[4 * step]), apart2 = hn::Sub(in[3 * step], in[4 * step]);
  out[0] = Times(4, u0);
  out[step] = Plus(Plus(Times(4, u5), -4, apart), -2, apart2);
  out[2 * step] = hn::Sub(Plus(Times(-5, u0), -4, sum), sum2);
  out[3 * step] = hn::Add(Plus(Times(-5, u5), 2, apart2), apart);
  out[4 * step] = hn::Add(hn::Add(u0, sum), sum2);
  out[5 * step] = u5;
}

// A^T
HWY_INLINE void MapOutput(const V* in, size_t step, V* out) {
  const V sum = hn::Add(in[step], in[2 * step]), apart = hn::Sub(in[step], in[2 * step]);
  const V sum2 = hn::Add(in[3 * step], in[4 * step]), apart2 = hn::Sub(in[3 * step], in[4 * step]);
  out[0] = hn::Add(hn::Add(in[0], sum), sum2);
  out[step] = hn::Add(Plus(apart, 2, apart2), in[5 * step]);
}

// A
HWY_INLINE void MapOutputBack(const V* in, size_t step, V* out) {
  const V y0 = in[0], y1 = in[step];
  out[0] = y0;
  out[step] = hn::Add(y0, y1);
  out[2 * step] = hn::Sub(y0, y1);
  out[3 * step] = Plus(y0, 2, y1);
  out[4 * step] = Plus(y0, -2, y1);
  out[5 * step] = y1;
}

// G
HWY_INLINE void MapFilter(const V* in, size_t step, V* out) {
  const V w0 = in[0], w1 = in[step], w2 = in[2 * step], w3 = in[3 * step], w4 = in[4 * step];
  const V even = Times(-1.f / 6, hn::Add(hn::Add(w0, w2), w4));
  const V odd = Times(-1.f / 6, hn::Add(w1, w3));
  const V even2 = Times(1.f / 24, Plus(Plus(w0, 4, w2), 16, w4));
  const V odd2 = Times(1.f / 24, Plus(Times(2, w1), 8, w3));
  out[0] = Times(0.25f, w0);
  out[step] = hn::Add(even, odd);
  out[2 * step] = hn::Sub(even, odd);
  out[3 * step] = hn::Add(even2, odd2);
  out[4 * step] = hn::Sub(even2, odd2);
  out[5 * step] = w4;
}

// G^T
HWY_INLINE void MapFilterBack(const V* in, size_t step, V* out) {
  const V even = Times(-1.f / 6, hn::Add(in[step], in[2 * step]));
  const V odd = Times(-1.f / 6, hn::Sub(in[step], in[2 * step]));
  const V even2 = Times(1.f / 24, hn::Add(in[3 * step], in[4 * step]));
  const V odd2 = Times(1.f / 24, hn::Sub(in[3 * step], in[4 * step]));
  out[0] = hn::Add(Plus(even, 0.25f, in[0]), even2);
  out[step] = Plus(odd, 2, odd2);
  out[2 * step] = Plus(even, 4, even2);
  out[3 * step] = Plus(odd, 8, odd2);
  out[4 * step] = hn::Add(Plus(even, 16, even2), in[5 * step]);
}

// `map` of `from` x `from` values to `to` x `to`, down the columns and along the rows; rows are
// kTile apart.
template <size_t from, size_t to, typename Map>
HWY_INLINE void MapBothWays(const Map& map, const V* in, V* out) {
  V half[kTile * kTile];
  for (size_t column = 0; column < from; ++column) map(in + column, kTile, half + column);
  for (size_t row = 0; row < to; ++row) map(half + row * kTile, 1, out + row * kTile);
}

// The pixels of an image that a tile covers, from (row, column) on.
struct Window {
  // Tile (i, j), moved up and left by so many pixels; `size` on each side.
  Window(size_t i, size_t j, size_t top, size_t left, size_t size, const WinogradImage& image)
      : row(static_cast<ptrdiff_t>(i * kStep) - static_cast<ptrdiff_t>(top)),
        column(static_cast<ptrdiff_t>(j * kStep) - static_cast<ptrdiff_t>(left)),
        first_row(std::max<ptrdiff_t>(0, -row)),
        first_column(std::max<ptrdiff_t>(0, -column)),
        end_row(End(row, size, image.height)),
        end_column(End(column, size, image.width)) {}
  static ptrdiff_t End(ptrdiff_t at, size_t size, size_t limit) {
    return std::min<ptrdiff_t>(static_cast<ptrdiff_t>(size), static_cast<ptrdiff_t>(limit) - at);
  }
  // visit(place in the tile, pixel of the image) for those inside the image.
  template <typename Visit>
  HWY_INLINE void ForPixels(const WinogradImage& image, const Visit& visit) const {
    for (ptrdiff_t y = first_row; y < end_row; ++y)
      for (ptrdiff_t x = first_column; x < end_column; ++x)
        visit(static_cast<size_t>(y) * kTile + static_cast<size_t>(x),
              static_cast<size_t>((row + y) * static_cast<ptrdiff_t>(image.width) + column + x));
  }
  ptrdiff_t row, column, first_row, first_column, end_row, end_column;
};

template <typename Visit>
HWY_INLINE void ForTiles(const WinogradTiles& tiles, const Visit& visit) {
  for (size_t i = 0; i < tiles.rows; ++i)
    for (size_t j = 0; j < tiles.columns; ++j) visit(i, j, (i * tiles.columns + j) * tiles.tile);
}

void WinogradInput(const float* x, const WinogradImage& image, size_t top, size_t left,
                   const WinogradTiles& tiles, float* u) {
  ForChannels(image.channels, [&](Lanes lanes, size_t c) HWY_ATTR {
    ForTiles(tiles, [&](size_t i, size_t j, size_t at) HWY_ATTR {
      V in[kTile * kTile], out[kTile * kTile];
      for (V& pixel : in) pixel = hn::Zero(Tag());
      Window(i, j, top, left, kTile, image).ForPixels(image, [&](size_t place, size_t p) HWY_ATTR {
        in[place] = lanes.Load(x + p * image.stride + c);
      });
      MapBothWays<kTile, kTile>(MapInput, in, out);
      for (size_t t = 0; t < kTile * kTile; ++t) lanes.Store(out[t], u + t * tiles.matrix + at + c);
    });
  });
}

void WinogradInputBackward(const float* du, const WinogradTiles& tiles, size_t top, size_t left,
                           const WinogradImage& image, float* dx) {
  ForChannels(image.channels, [&](Lanes lanes, size_t c) HWY_ATTR {
    for (size_t p = 0; p < image.height * image.width; ++p)
      lanes.Store(hn::Zero(Tag()), dx + p * image.stride + c);
    ForTiles(tiles, [&](size_t i, size_t j, size_t at) HWY_ATTR {
      V in[kTile * kTile], out[kTile * kTile];
      for (size_t t = 0; t < kTile * kTile; ++t) in[t] = lanes.Load(du + t * tiles.matrix + at + c);
      MapBothWays<kTile, kTile>(MapInputBack, in, out);
      Window(i, j, top, left, kTile, image).ForPixels(image, [&](size_t place, size_t p) HWY_ATTR {
        float* const to = dx + p * image.stride + c;
        lanes.Store(hn::Add(lanes.Load(to), out[place]), to);
      });
    });
  });
}

void WinogradOutput(const float* m, const WinogradTiles& tiles, const float* bias, bool relu,
                    const WinogradImage& image, float* y) {
  ForChannels(image.channels, [&](Lanes lanes, size_t c) HWY_ATTR {
    const V up = bias == nullptr ? hn::Zero(Tag()) : lanes.Load(bias + c);
    ForTiles(tiles, [&](size_t i, size_t j, size_t at) HWY_ATTR {
      V in[kTile * kTile], out[kTile * kTile];
      for (size_t t = 0; t < kTile * kTile; ++t) in[t] = lanes.Load(m + t * tiles.matrix + at + c);
      MapBothWays<kTile, kStep>(MapOutput, in, out);
      Window(i, j, 0, 0, kStep, image).ForPixels(image, [&](size_t place, size_t p) HWY_ATTR {
        V value = hn::Add(out[place], up);
        if (relu) value = hn::Max(hn::Zero(Tag()), value);  // in this order a NaN stays one
        lanes.Store(value, y + p * image.stride + c);
      });
    });
  });
}

void WinogradOutputBackward(const float* dy, const WinogradImage& image, const WinogradTiles& tiles,
                            float* dm, float* sum) {
  ForChannels(image.channels, [&](Lanes lanes, size_t c) HWY_ATTR {
    V all = hn::Zero(Tag());
    ForTiles(tiles, [&](size_t i, size_t j, size_t at) HWY_ATTR {
      V in[kTile * kTile], out[kTile * kTile];
      for (size_t row = 0; row < kStep; ++row)
        for (size_t column = 0; column < kStep; ++column)
          in[row * kTile + column] = hn::Zero(Tag());
      Window(i, j, 0, 0, kStep, image).ForPixels(image, [&](size_t place, size_t p) HWY_ATTR {
        in[place] = lanes.Load(dy + p * image.stride + c);
        all = hn::Add(all, in[place]);
      });
      MapBothWays<kStep, kTile>(MapOutputBack, in, out);
      for (size_t t = 0; t < kTile * kTile; ++t)
        lanes.Store(out[t], dm + t * tiles.matrix + at + c);
    });
    if (sum != nullptr) lanes.Store(all, sum + c);
  });
}

// Sixteen outputs of a filter, tap by tap: in w they are a filter apart.
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
      float taps[kWinogradChannels];
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
