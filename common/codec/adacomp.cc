// AdaComp (Chen et al. 2018, algorithm 2). A tensor is cut into bins of bin_elements neighbouring
// elements. With the residue (what earlier codes left out of the gradients) and the step's gradient
// dW, both of the size of the tensor:
//
//   G       = residue + dW
//   H       = G + dW
//   code(i) = sign(G(i)) s where |H(i)| >= max |G| over the bin of element i, else 0 (not sent)
//   s       = mean, over the tensor's bins that are not all zero, of the bin's max |G|
//   residue = G - code
//
// The class Residue computes the codes and returns them in place of the gradient. AdaComp::Encode
// makes the same selection from these codes again; the selection leaves the codes unchanged.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "common/codec/makers.h"
#include "common/codec/sparse.h"
#include "kernels/codes/stats.h"

namespace tern::codec {
namespace {

// Returns max |g|. Compares magnitudes as integers, because compilers vectorize integer maxima.
float MaxAbs(std::span<const float> g) {
  int32_t max_bits = 0;
  for (float v : g) max_bits = std::max(max_bits, std::bit_cast<int32_t>(v) & 0x7FFFFFFF);
  return std::bit_cast<float>(max_bits);
}

// Calls visit(first, length) for each bin of a tensor that overlaps elements [begin, begin + n).
// The overlap has `length` elements; `first` is the index of its first element minus `begin`.
template <typename Visit>
void ForEachBin(uint64_t begin, uint64_t n, uint64_t bin_elements, Visit visit) {
  for (uint64_t first = 0; first < n;) {
    const uint64_t length = std::min(n - first, bin_elements - (begin + first) % bin_elements);
    visit(first, length);
    first += length;
  }
}

// Returns s of the head comment, for the bins of G = `g`.
float ScaleOf(std::span<const float> g, uint64_t bin_elements) {
  double sum = 0;
  uint64_t nonzero_bins = 0;
  ForEachBin(0, g.size(), bin_elements, [&](uint64_t first, uint64_t length) {
    const float max = MaxAbs(g.subspan(first, length));
    sum += static_cast<double>(max);
    nonzero_bins += max > 0 ? 1 : 0;
  });
  return nonzero_bins == 0 ? 0 : static_cast<float>(sum / static_cast<double>(nonzero_bins));
}

// Writes to codes[i] the code of element begin + i of the tensor. `g` is G, `dw` is dW and `scale`
// is s of the head comment. `codes` may be the same array as `dw`.
void SelectCodes(std::span<const float> g, std::span<const float> dw, uint64_t begin,
                 uint64_t bin_elements, float scale, std::span<float> codes) {
  ForEachBin(begin, g.size(), bin_elements, [&](uint64_t first, uint64_t length) {
    const float max = MaxAbs(g.subspan(first, length));
    for (uint64_t i = first; i < first + length; ++i) {
      // Branch-free, because the processor cannot predict which elements are sent.
      const uint32_t is_sent =
          static_cast<uint32_t>(std::abs(g[i] + dw[i]) >= max) & static_cast<uint32_t>(g[i] != 0);
      codes[i] =
          std::bit_cast<float>(std::bit_cast<uint32_t>(std::copysign(scale, g[i])) & (0 - is_sent));
    }
  });
}

// The residue of one tensor on one worker.
class Residue : public Memory {
 public:
  Residue(uint64_t count, uint64_t bin_elements) : bin_elements_(bin_elements), g_(count) {}

  // Sets v to the codes of residue + g. REQUIRES that g is the whole tensor, because s depends on
  // all bins.
  std::span<const float> Compensate(uint64_t begin, std::span<const float> g,
                                    std::span<float> v) override {
    const std::span<float> sum = std::span(g_).subspan(begin, g.size());
    for (size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
    if (kernels::ComputeStats(sum.data(), sum.size()).is_finite) {
      SelectCodes(sum, g, begin, bin_elements_, ScaleOf(sum, bin_elements_), v);
    } else {
      std::copy(sum.begin(), sum.end(), v.begin());  // The caller reports non-finite values.
    }
    return v;
  }
  void Update(uint64_t begin, std::span<const float> v, std::span<const float> sent) override {
    for (size_t i = 0; i < v.size(); ++i) g_[begin + i] -= sent[i];
  }
  void AddState(SavedState* state) override { state->arrays.push_back({"residual", g_}); }
  void Reset() override { g_.assign(g_.size(), 0); }

 private:
  const uint64_t bin_elements_;
  std::vector<float> g_;  // Holds G between Compensate and Update, and the residue otherwise.
};

class AdaComp : public SparseCodec {
 public:
  explicit AdaComp(uint64_t bin_elements)
      : SparseCodec(SparseValues::kPair), bin_elements_(bin_elements) {}

  std::string_view name() const override { return "adacomp"; }
  uint64_t Granularity(uint64_t) const override { return bin_elements_; }
  EncodeParams Prepare(const kernels::Stats&, std::span<const float> values,
                       const kernels::NoiseKey&) const override {
    const float scale = ScaleOf(values, bin_elements_);
    EncodeParams params{scale, std::numeric_limits<float>::infinity()};
    params.low_value = 0 - scale;  // Not -scale: a scale of 0 must not give -0.
    params.high_value = scale;
    return params;
  }
  void Encode(const float* g, const Segment& segment, const EncodeParams& params,
              const kernels::NoiseKey&, std::vector<uint8_t>* out) const override {
    const std::span<const float> values(g, segment.count);
    std::vector<float> codes(segment.count);
    SelectCodes(values, values, segment.begin, bin_elements_, params.high_value, codes);
    const auto fill = [&](uint64_t first, std::span<float> x) {
      std::copy_n(codes.data() + first, x.size(), x.data());
    };
    AppendSparse({params.low_value, params.high_value}, segment.count, fill, out);
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<Residue>(count, bin_elements_);
  }

 private:
  const uint64_t bin_elements_;
};

}  // namespace

Result<std::unique_ptr<Codec>> MakeAdaComp(const Options& options) {
  const uint64_t bin_elements = options.keys.adacomp().bin_elements();
  if (bin_elements > 0) return std::unique_ptr<Codec>(std::make_unique<AdaComp>(bin_elements));
  return Status(
      Code::kBadJob,
      "exchange.adacomp.bin_elements is 0, expected 1 element or more (the paper uses 50 for "
      "convolutions, 500 for dense layers)");
}

}  // namespace tern::codec
