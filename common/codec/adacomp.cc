// AdaComp (Chen et al. 2018, algorithm 2). For a bin of T neighbours with their share of the
// residue and the step's gradient dW:
//
//   G       = residue + dW
//   H       = G + dW
//   code(i) = sign(G(i)) s where |H(i)| >= max |G| over the bin, else nothing
//   s       = mean over the tensor's non-zero bins of max |G|
//   residue = G - code
//
// Encoding is idempotent: codes encode as themselves. So the memory selects, and returns the codes
// as the values to encode.
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

// Compares magnitudes by their bits, because compilers vectorize integer maxima.
float MaxAbs(std::span<const float> g) {
  int32_t max = 0;
  for (float v : g) max = std::max(max, std::bit_cast<int32_t>(v) & 0x7FFFFFFF);
  return std::bit_cast<float>(max);
}

// Calls `use` for the part of each bin that lies in elements [begin, begin + n) of a tensor, as a
// range of indices relative to `begin`.
template <typename Use>
void ForEachBin(uint64_t begin, uint64_t n, uint64_t bin, Use use) {
  for (uint64_t first = 0; first < n;) {
    const uint64_t length = std::min(n - first, bin - (begin + first) % bin);
    use(first, length);
    first += length;
  }
}

float ScaleOf(std::span<const float> g, uint64_t bin) {
  double sum = 0;
  uint64_t bins = 0;
  ForEachBin(0, g.size(), bin, [&](uint64_t first, uint64_t length) {
    const float max = MaxAbs(g.subspan(first, length));
    sum += static_cast<double>(max);
    bins += max > 0 ? 1 : 0;
  });
  return bins == 0 ? 0 : static_cast<float>(sum / static_cast<double>(bins));
}

// Writes codes[i] for elements from `begin` on; codes may be dw.
void Select(std::span<const float> g, std::span<const float> dw, uint64_t begin, uint64_t bin,
            float scale, std::span<float> codes) {
  ForEachBin(begin, g.size(), bin, [&](uint64_t first, uint64_t length) {
    const float max = MaxAbs(g.subspan(first, length));
    for (uint64_t i = first; i < first + length; ++i) {
      // Branch-free: the outcome is unpredictable.
      const uint32_t sent =
          static_cast<uint32_t>(std::abs(g[i] + dw[i]) >= max) & static_cast<uint32_t>(g[i] != 0);
      codes[i] =
          std::bit_cast<float>(std::bit_cast<uint32_t>(std::copysign(scale, g[i])) & (0 - sent));
    }
  });
}

class Residue : public Memory {
 public:
  Residue(uint64_t count, uint64_t bin) : bin_(bin), g_(count) {}

  // v: the codes of g. REQUIRES the whole tensor.
  void Compensate(uint64_t begin, std::span<const float> g, std::span<float> v) override {
    const std::span<float> all = std::span(g_).subspan(begin, g.size());
    for (size_t i = 0; i < g.size(); ++i) all[i] += g[i];
    if (kernels::ComputeStats(all.data(), all.size()).finite) {
      Select(all, g, begin, bin_, ScaleOf(all, bin_), v);
    } else {
      std::copy(all.begin(), all.end(), v.begin());  // the caller reports the non-finite values
    }
  }
  void Update(uint64_t begin, std::span<const float> v, std::span<const float> sent) override {
    for (size_t i = 0; i < v.size(); ++i) g_[begin + i] -= sent[i];
  }
  void AddState(SavedState* state) override { state->arrays.push_back({"residual", g_}); }
  void Reset() override { g_.assign(g_.size(), 0); }

 private:
  const uint64_t bin_;
  std::vector<float> g_;  // G between Compensate and Update, otherwise the residue
};

class AdaComp : public SparseCodec {
 public:
  explicit AdaComp(uint64_t bin) : SparseCodec(SparseValues::kPair), bin_(bin) {}

  std::string_view name() const override { return "adacomp"; }
  uint64_t Granularity(uint64_t) const override { return bin_; }
  Prepared Prepare(const kernels::Stats&, std::span<const float> values,
                   const kernels::NoiseKey&) const override {
    const float scale = ScaleOf(values, bin_);
    Prepared prepared{scale, std::numeric_limits<float>::infinity()};
    prepared.low_value = 0 - scale;  // minus 0 would be -0; 0 - 0 is 0
    prepared.high_value = scale;
    return prepared;
  }
  void Encode(const float* g, const Segment& segment, const Prepared& prepared,
              const kernels::NoiseKey&, std::vector<uint8_t>* out) const override {
    const std::span<const float> values(g, segment.count);
    std::vector<float> codes(segment.count);
    Select(values, values, segment.begin, bin_, prepared.high_value, codes);
    const auto fill = [&](uint64_t first, std::span<float> x) {
      std::copy_n(codes.data() + first, x.size(), x.data());
    };
    AppendSparse({prepared.low_value, prepared.high_value}, segment.count, fill, out);
  }
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<Residue>(count, bin_);
  }

 private:
  const uint64_t bin_;
};

}  // namespace

Result<std::unique_ptr<Codec>> MakeAdaComp(const Options& options) {
  const uint64_t bin = options.keys.adacomp().bin_elements();
  if (bin > 0) return std::unique_ptr<Codec>(std::make_unique<AdaComp>(bin));
  return Status(
      Code::kBadJob,
      "exchange.adacomp.bin_elements is 0, expected 1 element or more (the paper uses 50 for "
      "convolutions, 500 for dense layers)");
}

}  // namespace tern::codec
