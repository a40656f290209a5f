// Max and average pooling (pool.h) on a CPU, vectorized over channels, compiled once for each
// instruction set by Highway.
#include <limits>
#include <vector>

#include "kernels/nn/pool.h"
#include "kernels/nn/pool_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/pool_cpu.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls work(first) for vectors of channels first, first + 1, ... that cover all channels. The last
// vector may overlap the one before: no masks, which some processors store slowly.
template <class D, class Work>
HWY_INLINE void ForVectors(D d, size_t channels, const Work& work) {
  const size_t num_lanes = hn::Lanes(d);
  size_t first = 0;
  for (; first + num_lanes <= channels; first += num_lanes) work(first);
  if (first < channels) work(channels - num_lanes);
}

// Calls work(d) with the widest vectors that have at most `channels` lanes.
template <size_t most_lanes, class Work>
HWY_INLINE void WithVectors(size_t channels, const Work& work) {
  const hn::CappedTag<float, most_lanes> d;
  if constexpr (most_lanes > 1) {
    if (channels < hn::Lanes(d)) return WithVectors<most_lanes / 4>(channels, work);
  }
  work(d);
}

// Calls work(h, w, rows of the input, columns of the input) for each pixel of the output.
template <class Work>
HWY_INLINE void ForOutputs(const DeviceSlide& slide, const Work& work) {
  for (uint32_t h = 0; h < slide.out.h; ++h) {
    const PoolSpan rows = InputsOf(slide.window.rows, h, slide.in.h);
    for (uint32_t w = 0; w < slide.out.w; ++w)
      work(h, w, rows, InputsOf(slide.window.columns, w, slide.in.w));
  }
}

// Calls work(h, w, rows of the output, columns of the output) for each pixel of the input.
template <class Work>
HWY_INLINE void ForInputs(const DeviceSlide& slide, const Work& work) {
  std::vector<PoolSpan> columns_of(slide.in.w);
  for (uint32_t w = 0; w < slide.in.w; ++w)
    columns_of[w] = OutputsOf(slide.window.columns, w, slide.out.w);
  for (uint32_t h = 0; h < slide.in.h; ++h) {
    const PoolSpan rows = OutputsOf(slide.window.rows, h, slide.out.h);
    for (uint32_t w = 0; w < slide.in.w; ++w) work(h, w, rows, columns_of[w]);
  }
}

HWY_INLINE size_t PixelOf(const DeviceImages& images, uint32_t h, uint32_t w) {
  return (size_t{h} * images.w + w) * images.c;
}

void MaxPoolForward(const DeviceSlide& slide, const float* x, float* y, uint16_t* winner) {
  const size_t channels = slide.in.c;
  const uint32_t width = slide.window.columns.kernel;
  WithVectors<16>(channels, [&](auto d) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<uint16_t, decltype(d)> du16;
    ForOutputs(slide, [&](uint32_t h, uint32_t w, PoolSpan rows, PoolSpan columns) HWY_ATTR {
      const size_t out = PixelOf(slide.out, h, w);
      const auto first_tap = static_cast<int32_t>(TapOf(slide.window.rows, h, rows.begin) * width +
                                                  TapOf(slide.window.columns, w, columns.begin));
      ForVectors(d, channels, [&](size_t c) HWY_ATTR {
        auto largest = hn::Set(d, -std::numeric_limits<float>::infinity());
        auto taps = hn::Set(di, first_tap);
        for (uint32_t r = 0; r < rows.size(); ++r) {
          const float* from = x + PixelOf(slide.in, rows.begin + r, columns.begin) + c;
          int32_t tap = first_tap + static_cast<int32_t>(r * width);
          for (uint32_t k = 0; k < columns.size(); ++k, from += channels, ++tap) {
            const auto value = hn::LoadU(d, from);
            const auto wins = hn::Or(hn::Gt(value, largest), hn::IsNaN(value));
            largest = hn::IfThenElse(wins, value, largest);
            taps = hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, tap), taps);
          }
        }
        hn::StoreU(largest, d, y + out + c);
        if (winner != nullptr) hn::StoreU(hn::DemoteTo(du16, taps), du16, winner + out + c);
      });
    });
  });
}

void MaxPoolBackward(const DeviceSlide& slide, const float* dy, const uint16_t* winner, float* dx) {
  const size_t channels = slide.in.c;
  const DeviceAxis &h_axis = slide.window.rows, &w_axis = slide.window.columns;
  WithVectors<16>(channels, [&](auto d) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<uint16_t, decltype(d)> du16;
    ForInputs(slide, [&](uint32_t h, uint32_t w, PoolSpan rows, PoolSpan columns) HWY_ATTR {
      float* to = dx + PixelOf(slide.in, h, w);
      ForVectors(d, channels, [&](size_t c) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (uint32_t out_h = rows.begin; out_h < rows.end; ++out_h) {
          const uint32_t row_tap = TapOf(h_axis, out_h, h) * w_axis.kernel;
          for (uint32_t out_w = columns.begin; out_w < columns.end; ++out_w) {
            const size_t out = PixelOf(slide.out, out_h, out_w) + c;
            const auto tap = static_cast<int32_t>(row_tap + TapOf(w_axis, out_w, w));
            const auto is_winner =
                hn::Eq(hn::PromoteTo(di, hn::LoadU(du16, winner + out)), hn::Set(di, tap));
            sum = hn::Add(sum,
                          hn::IfThenElseZero(hn::RebindMask(d, is_winner), hn::LoadU(d, dy + out)));
          }
        }
        hn::StoreU(sum, d, to + c);
      });
    });
  });
}

void AvgPoolForward(const DeviceSlide& slide, bool include_padding, const float* x, float* y) {
  const size_t channels = slide.in.c;
  WithVectors<16>(channels, [&](auto d) HWY_ATTR {
    ForOutputs(slide, [&](uint32_t h, uint32_t w, PoolSpan rows, PoolSpan columns) HWY_ATTR {
      float* to = y + PixelOf(slide.out, h, w);
      const auto divisor = hn::Set(d, DivisorOf(slide, include_padding, h, w));
      ForVectors(d, channels, [&](size_t c) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (uint32_t r = 0; r < rows.size(); ++r) {
          const float* from = x + PixelOf(slide.in, rows.begin + r, columns.begin) + c;
          for (uint32_t k = 0; k < columns.size(); ++k, from += channels)
            sum = hn::Add(sum, hn::LoadU(d, from));
        }
        hn::StoreU(hn::Div(sum, divisor), d, to + c);
      });
    });
  });
}

void AvgPoolBackward(const DeviceSlide& slide, bool include_padding, const float* dy, float* dx) {
  const size_t channels = slide.in.c;
  WithVectors<16>(channels, [&](auto d) HWY_ATTR {
    ForInputs(slide, [&](uint32_t h, uint32_t w, PoolSpan rows, PoolSpan columns) HWY_ATTR {
      float* to = dx + PixelOf(slide.in, h, w);
      ForVectors(d, channels, [&](size_t c) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (uint32_t out_h = rows.begin; out_h < rows.end; ++out_h) {
          for (uint32_t out_w = columns.begin; out_w < columns.end; ++out_w) {
            const auto divisor = hn::Set(d, DivisorOf(slide, include_padding, out_h, out_w));
            const auto gradient = hn::LoadU(d, dy + PixelOf(slide.out, out_h, out_w) + c);
            sum = hn::Add(sum, hn::Div(gradient, divisor));
          }
        }
        hn::StoreU(sum, d, to + c);
      });
    });
  });
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(MaxPoolForward);
HWY_EXPORT(MaxPoolBackward);
HWY_EXPORT(AvgPoolForward);
HWY_EXPORT(AvgPoolBackward);

void MaxPoolForward(const DeviceSlide& slide, const float* x, float* y, uint16_t* winner) {
  HWY_DYNAMIC_DISPATCH(MaxPoolForward)(slide, x, y, winner);
}
void MaxPoolBackward(const DeviceSlide& slide, const float* dy, const uint16_t* winner, float* dx) {
  HWY_DYNAMIC_DISPATCH(MaxPoolBackward)(slide, dy, winner, dx);
}
void AvgPoolForward(const DeviceSlide& slide, bool include_padding, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(AvgPoolForward)(slide, include_padding, x, y);
}
void AvgPoolBackward(const DeviceSlide& slide, bool include_padding, const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(AvgPoolBackward)(slide, include_padding, dy, dx);
}

}  // namespace tern::kernels
#endif
