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
// What a code leaves out of a gradient, some codecs add to the next one. What they keep for that is
// a Memory, one a tensor on each worker and, where sums are coded anew, one a segment on the
// server:
//
//   worker:  Compensate (whole tensor), Prepare, Encode, DecodeAlone, Keep (segment)
//   server:  EncodeSum does all of it
//
// Codecs have no state and may be used by any number of threads; an accumulator and a memory belong
// to one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/saved_state.h"
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
  uint64_t scaler_elements = 0;    // ternary: elements with a scaler of their own; 0: the tensor
  bool error_feedback = false;     // for codecs that round and keep nothing of their own
  // Sums of codecs that code them anew go down as codes; else as floats, for a server that works
  // with them itself.
  bool coded_sums = true;

  struct Qsgd {
    enum class Norm { kMax, kTwo };
    enum class Layout { kSign, kIntervals };
    enum class Levels { kBits, kGiven, kSqrtN, kSqrtMN, kSqrtMPN };
    int bits = 4;           // 2 to 16 an element, where levels is kBits
    uint64_t bucket = 512;  // elements with one norm; 0: the tensor
    Norm norm = Norm::kMax;
    Layout layout = Layout::kSign;
    // How many there are between 0 and the norm (qsgd_levels.h): as many as the bits hold; s; or
    // sqrt(n) / 2, sqrt(m n) / 2, sqrt(m p n) / 2 for a bucket of n elements (PQASGD).
    Levels levels = Levels::kBits;
    double s = 0;
    uint64_t samples = 1;      // m: of a worker in a step
    uint64_t local_steps = 1;  // p: between two exchanges
  } qsgd;

  struct OneBit {
    uint64_t bucket = 0;  // elements with one pair of means; 0: a column (Segment)
  } onebit;

  // Deep gradient compression (dgc_memory.h says what momentum, nesterov, masking and clip_norm
  // do).
  struct TopK {
    double ratio = 0.001;        // share of a tensor that is sent
    double sample_ratio = 0.01;  // share of it that the threshold is first taken from
    bool resample = true;  // what is too many is chosen from exactly, not by a higher threshold
    double momentum = 0;   // m
    bool nesterov = false;
    bool masking = true;
    double clip_norm = 0;  // of a worker's tensor; the paper's is N^-1/2 of the one of the mean
    uint64_t warmup_rounds = 0;  // in which the ratio falls by steps
    double warmup_ratio = 0.25;  // the first, and the factor from each to the next
  } topk;

  struct Threshold {
    double value = 0.5;   // t; MXNet's, for gradients that are not means
    double ratio = 0;     // above 0: t is such that this share of a tensor is sent, as it is
    bool global = false;  // of all tensors, by one t
  } threshold;

  struct Adaptive {
    double share = 0.01;  // pi: of the positive and of the negative elements
  } adaptive;

  struct AdaComp {
    uint64_t bin = 500;  // T, elements; the paper: 50 of convolutions, 500 of dense layers
  } adacomp;
};

// What one worker makes of one tensor before it codes it.
struct Prepared {
  float scaler = 0;  // shared: the maximum over the workers replaces it before Encode
  float clip = 0;    // values are clamped to +-clip; infinity: not clamped
  // Codecs that send few: what is at most `low` or at least `high`, and what each becomes.
  float low = 0, high = 0, low_value = 0, high_value = 0;
};

// Elements [begin, begin + count) of tensor `tensor`.
struct Segment {
  uint32_t tensor = 0;
  uint64_t begin = 0;
  uint64_t count = 0;
  uint64_t column =
      1;  // so many neighbours from the tensor's first on make one output of its layer
};

// What a codec keeps of a tensor (or a segment of it) from round to round.
class Memory {
 public:
  virtual ~Memory() = default;
  // v: what is to be coded in place of g, elements [begin, begin + g.size()). v may be g.
  virtual void Compensate(uint64_t begin, std::span<const float> g, std::span<float> v) = 0;
  // `sent` is what the receivers make of the code of v.
  virtual void Keep(uint64_t begin, std::span<const float> v, std::span<const float> sent) = 0;
  // All of it, to save and to restore.
  virtual void AddState(SavedState* state) = 0;
  // As it was when it was made.
  virtual void Forget() = 0;
};

// What the coding of a sum needs beside the sum.
struct Recode {
  kernels::NoiseKey noise;   // `tensor` is set by the codec
  Memory* memory = nullptr;  // of NewSumMemory, if that makes one; outlives the accumulator
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
  // The same of bytes that may be kept: they are checked now and may be added later, a few workers'
  // in one pass.
  virtual Result<size_t> Take(int rank, const Bytes& bytes) { return Add(rank, bytes.span()); }
  // Appends the answer, at most MaxSumSize(segment, contributors) bytes for the contributors that
  // were added. The same again if called again, but where there is a memory. REQUIRES one of them
  // at least; no Add after it.
  virtual void EncodeSum(std::vector<uint8_t>* out) = 0;
};

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string_view name() const = 0;
  // Whether the workers exchange scalers of the tensors coded so.
  virtual bool shares_scaler() const { return false; }
  // So many elements of a tensor, from the first on, are one to Prepare, and chunks hold a segment
  // for each; 0: the whole tensor is.
  virtual uint64_t scaler_elements() const { return 0; }
  // Whether all tensors coded so are one to Prepare: what it makes of all their values together is
  // each one's. Their gradients are then in one bucket.
  virtual bool prepares_model() const { return false; }
  // Whether a code is drawn, so that its square does not stand for the gradient's.
  virtual bool stochastic() const { return false; }
  // Whether a code is the values themselves, rounded at most: it is not drawn, and nothing of an
  // earlier gradient was added.
  bool SendsValues() const { return !stochastic() && NewMemory(1) == nullptr; }
  // How many neighbouring elements are coded together, from the tensor's first on: chunks are cut
  // between them, so that how a tensor is cut never shows.
  virtual uint64_t Granularity(uint64_t /*column*/) const { return 1; }
  // From a whole tensor (or each scaler_elements of it) and its statistics. REQUIRES stats.finite:
  // the caller reports a gradient that is not, by tensor, worker and round. Ternary: clip.h says
  // what each variant makes of them.
  virtual Prepared Prepare(const kernels::Stats& stats, std::span<const float> values,
                           const kernels::NoiseKey& noise) const = 0;
  // Appends the code of g[0, segment.count). `noise.tensor` is segment.tensor, whatever it says.
  virtual void Encode(const float* g, const Segment& segment, const Prepared& prepared,
                      const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const = 0;
  // The most bytes that Encode of the segment can append.
  virtual size_t MaxEncodedSize(const Segment& segment) const = 0;
  // For the ranks below `workers`.
  virtual std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                                      const Recode& recode = {}) const = 0;
  // The most bytes that EncodeSum appends; never fewer for more contributors.
  virtual size_t MaxSumSize(const Segment& segment, int contributors) const = 0;
  // The size of the sum at the front of `bytes`; kMismatch if there is none. As it stands here: of
  // a codec whose sums all have the largest size.
  virtual Result<size_t> SumPart(std::span<const uint8_t> bytes, const Segment& segment,
                                 int contributors) const;
  // Of a tensor of `count` elements on a worker; null: it keeps nothing.
  virtual std::unique_ptr<Memory> NewMemory(uint64_t /*count*/) const { return nullptr; }
  // Of a segment on a server.
  virtual std::unique_ptr<Memory> NewSumMemory(const Segment& /*segment*/) const { return nullptr; }
  // Whether the code of one worker is its own sum, but for the sign of a zero.
  virtual bool CodeIsSum() const { return false; }
  // values[0, segment.count) of one worker's code at the front of `code`, without the others': what
  // Add, EncodeSum and Decode of it alone make. The size of the code; errors as Add and Decode.
  // REQUIRES a codec that shares no scalers.
  virtual Result<size_t> DecodeAlone(std::span<const uint8_t> code, const Segment& segment,
                                     float* values) const;
  // The same, part by part and in order as DecodeTo does; an error may come after some parts. The
  // server that sends such a code and the workers that get it all read it by this function, so that
  // they have the same values bit for bit.
  using Use = std::function<void(uint64_t first, std::span<const float> values)>;
  Result<size_t> DecodeAloneTo(std::span<const uint8_t> code, const Segment& segment,
                               const Use& use) const;
  // mean[0, n) = mean over the contributors of elements [first, first + n) of the segment whose sum
  // is `sum` (SumPart bytes). kMismatch if the bytes are not a possible
  // sum.
  virtual Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                        float scaler, uint64_t first, uint64_t n, float* mean) const = 0;
  // The whole segment, part by part and in order: what `use` makes of a part meets it in a cache.
  virtual Status DecodeTo(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                          float scaler, const Use& use) const;
};

// The table of codecs: names that a job may use, in order. (codec.cc; a new codec adds one line.)
const std::vector<std::string>& CodecNames();
// kBadJob with the known names if there is none of that name.
Result<std::unique_ptr<Codec>> MakeCodec(std::string_view name, const Options& options);

}  // namespace tern::codec
