// The codecs fp32, fp16 and bf16 on a GPU: gradients are sent as floats of 32 or 16 bits.
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/device/tiling.h"
#include "kernels/update/arrays.h"
#include "worker/device/codecs.h"

namespace tern::device {
namespace {

class FloatCodec : public DeviceCodec {
 public:
  explicit FloatCodec(const Context& context)
      : DeviceCodec(context),
        element_bytes_(context.layout.codec->name() == "fp32" ? 4 : 2),
        encode_(context.layout.codec->name() == "fp16" ? kernels::FloatToHalfOnDevice
                                                       : kernels::FloatToBfloatOnDevice),
        decode_(context.layout.codec->name() == "fp16" ? kernels::HalfToFloatOnDevice
                                                       : kernels::BfloatToFloatOnDevice) {}

  Status Allocate() { return AllocateBuffers(); }

  Result<std::vector<kernels::Stats>> Prepare(uint32_t bucket,
                                              const kernels::NoiseKey& noise) override {
    return context_.stats->Compute(GradientsOf(noise.round), context_.buckets[bucket],
                                   context_.coder_stream);
  }

  Result<Bytes> Encode(uint32_t chunk, std::span<const kernels::TernaryScale>,
                       const kernels::NoiseKey& noise) override {
    const Group& group = context_.chunks[chunk];
    size_t code_bytes = 0;
    for (size_t i = 0; i < group.size(); ++i) {
      const kernels::Part& part = group.part(i);
      const float* gradients = GradientsOf(noise.round) + part.begin;
      TERN_RETURN_IF_ERROR(
          element_bytes_ == 4
              ? context_.coder_stream->CopyOnDevice(code_.get() + code_bytes, gradients,
                                                    part.count * sizeof(float))
              : CheckCuda(encode_(context_.coder_stream->get(), gradients, part.count,
                                  reinterpret_cast<uint16_t*>(code_.get() + code_bytes)),
                          "codes of 16 bits"));
      code_bytes += part.count * element_bytes_;
    }
    return CopyCode(code_bytes);
  }

  Status DecodeMeans(uint32_t chunk, const DeviceModel::Sums& sums, float* means,
                     uint32_t* bad_count) override {
    const auto ranges = RangesOf(chunk, sums);
    if (!ranges.ok()) return ranges.status();
    TERN_RETURN_IF_ERROR(UploadSums(sums));
    const kernels::DeviceStream stream = context_.compute_stream->get();
    for (size_t i = 0; i < ranges->size(); ++i) {
      const kernels::Part& part = context_.chunks[chunk].part(i);
      const uint8_t* part_sums = sums_.get() + (*ranges)[i].begin;
      float* part_means = means + part.begin;
      TERN_RETURN_IF_ERROR(
          element_bytes_ == 4
              ? context_.compute_stream->CopyOnDevice(part_means, part_sums,
                                                      part.count * sizeof(float))
              : CheckCuda(decode_(stream, reinterpret_cast<const uint16_t*>(part_sums), part.count,
                                  part_means),
                          "means of 16 bits"));
      TERN_RETURN_IF_ERROR(
          CheckCuda(kernels::CountNotFiniteOnDevice(stream, part_means, part.count, bad_count),
                    "a check of means"));
    }
    return Ok();
  }

 private:
  const size_t element_bytes_;  // The number of bytes of an encoded element.
  // Convert floats to 16-bit codes, and back. Not used for codes of 32 bits.
  int (*const encode_)(kernels::DeviceStream, const float*, size_t, uint16_t*);
  int (*const decode_)(kernels::DeviceStream, const uint16_t*, size_t, float*);
};

}  // namespace

Result<std::unique_ptr<DeviceCodec>> MakeFloatCodes(const DeviceCodec::Context& context) {
  return MakeCodecOf<FloatCodec>(context);
}

}  // namespace tern::device
