// A codec turns a worker's gradient into bytes, adds the workers' bytes on the server, and turns
// the sum's bytes into the mean gradient. It works on segments: a chunk of the exchange is a row of
// segments (parts of tensors), each coded by its tensor's codec and starting at a byte boundary.
// A codec's name is a promise about its bytes: change the bytes, change the name.
//
//   worker:  Prepare (whole tensor: statistics -> scaler, clip), [scalers are shared],
//            Encode (segment)
//   server:  NewAccumulator, Add (any subset of the ranks, once each, any order), EncodeSum
//   worker:  Decode (any range of the segment, as often as wanted)
//
// A sum is over whoever was added, its contributors: their number goes beside it, and the mean is
// over them.
//
// Codecs have no state and may be used by any number of threads; an accumulator belongs to one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "kernels/philox.h"
#include "kernels/stats.h"

namespace tern::codec {

// Variants of TernGrad's clipping (eq. 9); clip.h says what each makes of a tensor.
enum class Clip { kPaper, kOfficial, kGrace, kNone };

struct Options {
  Clip clip = Clip::kPaper;
  double clip_sigma = 2.5;         // c of eq. 9
  bool scaler_per_worker = false;  // scalers travel in the payload and the server adds floats
};

// What one worker makes of one tensor before it codes it.
struct Prepared {
  float scaler = 0;  // shared: the maximum over the workers replaces it before Encode
  float clip = 0;    // values are clamped to +-clip; infinity: not clamped
};

// Elements [begin, begin + count) of tensor `tensor`.
struct Segment {
  uint32_t tensor = 0;
  uint64_t begin = 0;
  uint64_t count = 0;
};

// Adds up one segment over those workers of a round who come.
class Accumulator {
 public:
  virtual ~Accumulator() = default;
  // Consumes this segment's part from the front of `bytes` and returns its size. Everything is
  // checked before it is added: a Status (kMismatch) leaves the sum as it was. REQUIRES ranks below
  // `workers`, each at most once. Codecs that add floats keep a copy until all lower ranks have
  // come or the sum is asked for, so order of arrival never shows.
  virtual Result<size_t> Add(int rank, std::span<const uint8_t> bytes) = 0;
  // Appends the answer: SumSize(count, contributors) bytes for the contributors that were added.
  // The same again if called again. REQUIRES one of them at least; no Add after it.
  virtual void EncodeSum(std::vector<uint8_t>* out) = 0;
};

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string_view name() const = 0;
  // Whether the workers exchange scalers of the tensors coded so.
  virtual bool shares_scaler() const { return false; }
  // Whether a code is drawn, so that its square does not stand for the gradient's.
  virtual bool stochastic() const { return false; }
  // From the statistics of a whole tensor of n elements. REQUIRES stats.finite: the caller reports
  // a gradient that is not, by tensor, worker and round. Ternary: clip.h says what each variant
  // makes of them.
  virtual Prepared Prepare(const kernels::Stats& stats, size_t n) const = 0;
  // Appends the code of g[0, segment.count). `noise.tensor` is set by the codec.
  virtual void Encode(const float* g, const Segment& segment, const Prepared& prepared,
                      const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const = 0;
  // The most bytes that Encode of `count` elements can append.
  virtual size_t MaxEncodedSize(uint64_t count) const = 0;
  // For the ranks below `workers`.
  virtual std::unique_ptr<Accumulator> NewAccumulator(uint64_t count, int workers) const = 0;
  // The exact number of bytes that EncodeSum appends; never fewer for more contributors.
  virtual size_t SumSize(uint64_t count, int contributors) const = 0;
  // Whether the code of one worker is its own sum, but for the sign of a zero.
  virtual bool CodeIsSum() const { return false; }
  // values[0, count) of one worker's code at the front of `code`, without the others': what Add,
  // EncodeSum and Decode of it alone make. The size of the code; errors as Add and Decode. REQUIRES
  // a codec that shares no scalers.
  virtual Result<size_t> DecodeAlone(std::span<const uint8_t> code, uint64_t count,
                                     float* values) const;
  // mean[0, n) = mean over the contributors of elements [first, first + n) of the segment of
  // `count` elements whose sum is `sum` (SumSize bytes). kMismatch if the bytes are not a possible
  // sum.
  virtual Status Decode(std::span<const uint8_t> sum, uint64_t count, int contributors,
                        float scaler, uint64_t first, uint64_t n, float* mean) const = 0;
};

// The table of codecs: names that a job may use, in order. (codec.cc; a new codec adds one line.)
const std::vector<std::string>& CodecNames();
// kBadJob with the known names if there is none of that name.
Result<std::unique_ptr<Codec>> MakeCodec(std::string_view name, const Options& options);

}  // namespace tern::codec
