#include "tests/common/codec/faulty_codecs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/codec/float_sum.h"
#include "common/codec/wrapper.h"
#include "kernels/codes/ternary.h"

namespace tern::codec {
namespace {

// A codec of which only Encode is faulty; also with a rotation before it.
class FaultyEncoder : public CodecWrapper {
 public:
  using CodecWrapper::CodecWrapper;
  uint64_t scaler_elements() const override { return inner_->scaler_elements(); }
  bool rotates() const override { return inner_->rotates(); }
  void Rotate(uint32_t tensor, uint64_t begin, std::span<const float> g, float* y) const override {
    inner_->Rotate(tensor, begin, g, y);
  }
};

class IgnoredWorker : public FaultyEncoder {
 public:
  using FaultyEncoder::FaultyEncoder;
  void Encode(const float* g, const Segment& segment, const EncodeParams& encode_params,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    const std::vector<float> zeros(segment.count);
    inner_->Encode(noise.rank == 0 ? zeros.data() : g, segment, encode_params, noise, out);
  }
};

class TruncatedNoise : public FaultyEncoder {
 public:
  using FaultyEncoder::FaultyEncoder;
  void Encode(const float* g, const Segment& segment, const EncodeParams& encode_params,
              const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const override {
    kernels::NoiseKey key = noise;
    key.tensor = segment.tensor;
    std::vector<uint8_t> mask(kernels::PlaneBytes(segment.count));
    std::vector<uint8_t> signs(mask.size());
    size_t num_nonzeros = 0;
    for (uint64_t i = 0; i < segment.count; ++i) {
      const float magnitude = std::min(std::abs(g[i]), encode_params.clip);
      const unsigned random_bits = kernels::Draw16(key, segment.begin + i, 0) >> 12;
      if (!(magnitude > 0) ||
          !(static_cast<float>(random_bits) / 16 < magnitude / encode_params.scaler))
        continue;
      mask[i / 8] |= static_cast<uint8_t>(1 << (i % 8));
      if (g[i] < 0) signs[num_nonzeros / 8] |= static_cast<uint8_t>(1 << (num_nonzeros % 8));
      ++num_nonzeros;
    }
    if (!inner_->shares_scaler()) AppendFloats({&encode_params.scaler, 1}, out);
    out->insert(out->end(), mask.begin(), mask.end());
    out->insert(out->end(), signs.begin(), signs.begin() + kernels::PlaneBytes(num_nonzeros));
  }
};

}  // namespace

std::unique_ptr<Codec> WithIgnoredWorker(std::unique_ptr<Codec> inner) {
  return std::make_unique<IgnoredWorker>(std::move(inner));
}

std::unique_ptr<Codec> WithTruncatedNoise(std::unique_ptr<Codec> inner) {
  return std::make_unique<TruncatedNoise>(std::move(inner));
}

}  // namespace tern::codec
