// Local response normalization (lrn.h) on a CPU, vectorized, compiled once for each instruction set
// by Highway.
#include <cstring>
#include <vector>

#include "kernels/nn/lrn.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/lrn_cpu.cc"
// These headers must be in this order: Highway's mathematical functions depend on its current
// target, which the first header sets.
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using V = hn::Vec<Tag>;

constexpr size_t kBlock = 16;  // channels of a block, if the image is blocked

// The values of the channels of one pixel. Zeros are before the first and after the last channel,
// for windows that extend beyond the channels.
class PaddedPixel {
 public:
  PaddedPixel(const LrnImage& image, size_t size)
      : image_(image),
        half_window_(size / 2),
        padded_channels_((image.channels + kBlock - 1) / kBlock * kBlock),
        values_(padded_channels_ + size + kBlock) {}

  size_t padded_channels() const { return padded_channels_; }  // rounded up to a multiple of kBlock
  // The value of channel c.
  float* at(size_t c) { return &values_[half_window_ + c]; }
  // The sums over the windows around the channels of one vector: c, c + 1, ...
  HWY_INLINE V WindowSum(size_t c) const {
    V sum = hn::LoadU(Tag(), &values_[c]);
    for (size_t j = 1; j <= 2 * half_window_; ++j)
      sum = hn::Add(sum, hn::LoadU(Tag(), &values_[c + j]));
    return sum;
  }
  // Loads the channels of a pixel of the image x.
  void Read(const float* x, size_t pixel) {
    ForBlocks(pixel, [&](size_t c, size_t offset, size_t count) {
      std::memcpy(at(c), x + offset, count * sizeof(float));
    });
  }
  // Stores the channels of a pixel of the image y.
  void Write(size_t pixel, float* y) {
    ForBlocks(pixel, [&](size_t c, size_t offset, size_t count) {
      std::memcpy(y + offset, at(c), count * sizeof(float));
    });
  }

 private:
  // Calls visit(c, offset, count) for each run of `count` channels of the pixel that are next to
  // each other in the image. The first of them, channel c, is at `offset`.
  template <typename Visit>
  void ForBlocks(size_t pixel, const Visit& visit) const {
    if (!image_.is_blocked) return visit(0, pixel * image_.channels, image_.channels);
    for (size_t c = 0; c < image_.channels; c += kBlock)
      visit(c, (c * image_.pixels) + pixel * kBlock, kBlock);
  }

  const LrnImage image_;
  const size_t half_window_, padded_channels_;
  std::vector<float> values_;
};

// Returns s^-beta, with fast square roots for the usual beta.
HWY_INLINE V ToMinusBeta(V s, float beta) {
  const Tag d;
  if (beta == 0.75f) {
    const V root = hn::Sqrt(s);
    return hn::Div(hn::Set(d, 1), hn::Mul(root, hn::Sqrt(root)));
  }
  return hn::Exp(d, hn::Mul(hn::Set(d, -beta), hn::Log(d, s)));
}

// Computes the s_c of one pixel: s_c = k + alpha / size * the sum of x_j^2 over the channels j in
// the window around channel c (lrn.h).
struct PixelSums {
  PixelSums(const LrnImage& image, const LrnRule& rule)
      : x(image, rule.size),
        squares(image, rule.size),
        factor(hn::Set(Tag(), rule.alpha / static_cast<float>(rule.size))),
        k(hn::Set(Tag(), rule.k)) {}

  void Read(const float* from, size_t pixel) {
    x.Read(from, pixel);
    for (size_t c = 0; c < x.padded_channels(); c += hn::Lanes(Tag())) {
      const V value = hn::LoadU(Tag(), x.at(c));
      hn::StoreU(hn::Mul(value, value), Tag(), squares.at(c));
    }
  }
  // Returns s_c for a vector of neighbouring channels, of which c is the first.
  HWY_INLINE V ScaleOf(size_t c) const { return hn::MulAdd(factor, squares.WindowSum(c), k); }

  PaddedPixel x, squares;
  V factor, k;
};

void LrnForward(const float* x, const LrnImage& image, const LrnRule& rule, float* y) {
  const Tag d;
  PixelSums sums(image, rule);
  PaddedPixel out(image, rule.size);
  for (size_t pixel = 0; pixel < image.pixels; ++pixel) {
    sums.Read(x, pixel);
    for (size_t c = 0; c < out.padded_channels(); c += hn::Lanes(d))
      hn::StoreU(hn::Mul(hn::LoadU(d, sums.x.at(c)), ToMinusBeta(sums.ScaleOf(c), rule.beta)), d,
                 out.at(c));
    out.Write(pixel, y);
  }
}

void LrnBackward(const float* x, const float* dy, const LrnImage& image, const LrnRule& rule,
                 float* dx) {
  const Tag d;
  PixelSums sums(image, rule);
  PaddedPixel gradient(image, rule.size), direct_terms(image, rule.size),
      products(image, rule.size);
  const V factor = hn::Set(d, -2 * rule.alpha * rule.beta / static_cast<float>(rule.size));
  for (size_t pixel = 0; pixel < image.pixels; ++pixel) {
    sums.Read(x, pixel);
    gradient.Read(dy, pixel);
    for (size_t c = 0; c < products.padded_channels(); c += hn::Lanes(d)) {
      const V s = sums.ScaleOf(c);
      const V direct_term = hn::Mul(hn::LoadU(d, gradient.at(c)), ToMinusBeta(s, rule.beta));
      hn::StoreU(direct_term, d, direct_terms.at(c));
      hn::StoreU(hn::Div(hn::Mul(direct_term, hn::LoadU(d, sums.x.at(c))), s), d, products.at(c));
    }
    for (size_t c = 0; c < products.padded_channels(); c += hn::Lanes(d)) {
      const V window_term =
          hn::Mul(hn::Mul(factor, hn::LoadU(d, sums.x.at(c))), products.WindowSum(c));
      hn::StoreU(hn::Add(hn::LoadU(d, direct_terms.at(c)), window_term), d, gradient.at(c));
    }
    gradient.Write(pixel, dx);
  }
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(LrnForward);
HWY_EXPORT(LrnBackward);

void LrnForward(const float* x, const LrnImage& image, const LrnRule& rule, float* y) {
  HWY_DYNAMIC_DISPATCH(LrnForward)(x, image, rule, y);
}

void LrnBackward(const float* x, const float* dy, const LrnImage& image, const LrnRule& rule,
                 float* dx) {
  HWY_DYNAMIC_DISPATCH(LrnBackward)(x, dy, image, rule, dx);
}

}  // namespace tern::kernels
#endif
