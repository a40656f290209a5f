// A codec turns a worker's gradient into bytes, adds the workers' bytes on the server, and turns
// the sum's bytes into the mean gradient. It works on segments: a chunk of the exchange is a row of
// segments (parts of tensors), each coded by its tensor's codec and starting at a byte boundary.
// A codec's name is a promise about its bytes: change the bytes, change the name.
//
//   worker:  Prepare (whole tensor: statistics -> scaler, clip)
//            exchange of scalers, if they are shared
//            Encode (segment)
//   server:  NewAccumulator, Add (any subset of the ranks, once each, any order), EncodeSum
//   worker:  Decode (any range of the segment, as often as wanted)
//
// The ranks that were added to a sum are its contributors. Their number travels with the sum, and
// the mean is over them.
//
// Some codecs add what a code left out of a gradient to the next gradient. They keep it in a
// Memory: one per tensor on each worker and, if sums are coded anew, one per segment on the server:
//
//   worker:  Compensate (whole tensor), Prepare, Encode, DecodeAlone, Update (segment)
//   server:  EncodeSum does all of it
//
// Codecs have no state and may be used by any number of threads; an accumulator or a memory belongs
// to one thread.
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
#include "kernels/codes/philox.h"
#include "kernels/codes/stats.h"
#include "proto/exchange.pb.h"

namespace tern::codec {

// Variants of TernGrad's clipping (eq. 9), defined in clip.h.
enum class Clip { kPaper, kOfficial, kGrace, kNone };

struct Options {
  Clip clip = Clip::kPaper;
  double clip_sigma = 2.5;         // c of eq. 9
  bool scaler_per_worker = false;  // scalers travel in the payload and the server adds floats
  uint64_t scaler_elements = 0;    // ternary: elements per scaler; 0: the whole tensor
  bool error_feedback = false;     // for deterministic codecs without a memory
  // For codecs that encode the sum again. True: the answer to workers is codes. False: the sum
  // stays floats, because the server itself applies it to its parameters.
  bool coded_sums = true;
  // The job's `exchange`, in which a codec finds the section under its own name. QSGD and topk use
  // the structs below instead.
  pb::Exchange keys;

  struct Qsgd {
    enum class Norm { kMax, kTwo };
    enum class Layout { kSign, kIntervals };
    enum class Levels { kBits, kGiven, kSqrtN, kSqrtMN, kSqrtMPN };
    int bits = 4;           // 2 to 16 per element, if levels is kBits
    uint64_t bucket = 512;  // elements per norm; 0: the tensor
    Norm norm = Norm::kMax;
    Layout layout = Layout::kSign;
    // How many levels lie between 0 and the norm (qsgd_levels.h): as many as the bits allow; s; or,
    // for a bucket of n elements, sqrt(n) / 2, sqrt(m n) / 2, sqrt(m p n) / 2 (PQASGD).
    Levels levels = Levels::kBits;
    double s = 0;
    uint64_t samples = 1;      // m: samples of a worker per step
    uint64_t local_steps = 1;  // p: steps between two exchanges
  } qsgd;

  // Deep gradient compression; dgc_memory.h defines momentum, nesterov, masking and clip_norm.
  struct TopK {
    double ratio = 0.001;        // share of a tensor that is sent
    double sample_ratio = 0.01;  // share of a tensor that the first threshold is computed from
    bool resample = true;        // if too many pass: select exactly, do not raise the threshold
    double momentum = 0;         // m
    bool nesterov = false;
    bool masking = true;
    // Limit of the norm of a tensor's gradient on a worker; 0: none. For N workers the paper takes
    // N^-1/2 of the limit for the mean.
    double clip_norm = 0;
    uint64_t warmup_rounds = 0;  // rounds in which the ratio falls by steps
    double warmup_ratio = 0.25;  // the first ratio, and the factor from each to the next
  } topk;
};

// What a worker computes from a tensor before it encodes it.
struct Prepared {
  float scaler = 0;  // if shared, the maximum over the workers replaces it before Encode
  float clip = 0;    // values are clamped to +-clip; infinity: not clamped
  // Sparse codecs: elements of at most `low` or at least `high` are sent, as these values.
  float low = 0, high = 0, low_value = 0, high_value = 0;
};

// Elements [begin, begin + count) of tensor `tensor`.
struct Segment {
  uint32_t tensor = 0;
  uint64_t begin = 0;
  uint64_t count = 0;
  uint64_t column =
      1;  // number of neighbouring elements that belong to one output of the tensor's layer
};

// The state that a codec keeps for a tensor (or a segment of it) from round to round.
class Memory {
 public:
  virtual ~Memory() = default;
  // Sets v, the values to encode in place of g, for elements [begin, begin + g.size()). v may be g.
  virtual void Compensate(uint64_t begin, std::span<const float> g, std::span<float> v) = 0;
  // Takes what the code of v left out into the memory. `sent`: the values that receivers decode
  // from that code.
  virtual void Update(uint64_t begin, std::span<const float> v, std::span<const float> sent) = 0;
  // All of its state, to save and to restore.
  virtual void AddState(SavedState* state) = 0;
  // Resets it to its initial state.
  virtual void Reset() = 0;
};

// The inputs of EncodeSum besides the sum itself, for codecs that code sums anew.
struct Recode {
  kernels::NoiseKey noise;  // the codec sets `tensor`
  // From NewSumMemory, null if the codec keeps nothing. Outlives the accumulator.
  Memory* memory = nullptr;
};

// Adds up one segment over the workers that contribute to a round.
class Accumulator {
 public:
  virtual ~Accumulator() = default;
  // Consumes this segment's part from the front of `bytes` and returns its size. Checks everything
  // before it adds: after an error (kMismatch) the sum is unchanged. REQUIRES ranks below
  // `workers`, each at most once. Codecs that add floats keep a copy until all lower ranks have
  // been added or the sum is requested, so the result does not depend on the order of arrival.
  virtual Result<size_t> Add(int rank, std::span<const uint8_t> bytes) = 0;
  // The same, but may keep a reference to `bytes`: it checks them now, and may add them later,
  // together with the bytes of other workers, in one pass.
  virtual Result<size_t> AddRetained(int rank, const Bytes& bytes) {
    return Add(rank, bytes.span());
  }
  // Appends the code of the sum, which answers the workers: at most MaxSumSize(segment,
  // contributors) bytes, where contributors is the number of ranks added. Repeating the call gives
  // the same bytes, unless there is a memory. REQUIRES at least one contributor; no Add after it.
  virtual void EncodeSum(std::vector<uint8_t>* out) = 0;
};

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string_view name() const = 0;
  // Whether the workers share the scalers of tensors with this codec.
  virtual bool shares_scaler() const { return false; }
  // Prepare gets this many elements of a tensor at a time, and chunks hold a segment for each such
  // range; 0: Prepare gets the whole tensor.
  virtual uint64_t scaler_elements() const { return 0; }
  // Whether Prepare gets the values of all tensors with this codec at once, and its result is used
  // for each. Their gradients are then in one bucket.
  virtual bool prepares_model() const { return false; }
  // Whether codes are random, so that the square of a code does not approximate the gradient's.
  virtual bool stochastic() const { return false; }
  // Whether a code is the values themselves, at most rounded: not stochastic, and without
  // remainders of earlier gradients.
  bool SendsValues() const { return !stochastic() && NewMemory(1) == nullptr; }
  // How many neighbouring elements are coded together, from the tensor's first on. Chunks are cut
  // only between such groups, so that the cut does not change the codes.
  virtual uint64_t Granularity(uint64_t /*column*/) const { return 1; }
  // Computes the scaler and clip of a whole tensor (or of each scaler_elements of it). REQUIRES
  // stats.finite: the caller reports non-finite gradients, by tensor, worker and round. clip.h
  // defines the variants of ternary.
  virtual Prepared Prepare(const kernels::Stats& stats, std::span<const float> values,
                           const kernels::NoiseKey& noise) const = 0;
  // Appends the code of g[0, segment.count). Ignores noise.tensor: segment.tensor is used.
  virtual void Encode(const float* g, const Segment& segment, const Prepared& prepared,
                      const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const = 0;
  // The most bytes that Encode appends for the segment.
  virtual size_t MaxEncodedSize(const Segment& segment) const = 0;
  // An accumulator for ranks below `workers`.
  virtual std::unique_ptr<Accumulator> NewAccumulator(const Segment& segment, int workers,
                                                      const Recode& recode = {}) const = 0;
  // The most bytes that EncodeSum appends; does not decrease with the number of contributors.
  virtual size_t MaxSumSize(const Segment& segment, int contributors) const = 0;
  // The size of the sum at the front of `bytes`; kMismatch if it is invalid. This default is for
  // codecs whose sums always have the largest size.
  virtual Result<size_t> SumSize(std::span<const uint8_t> bytes, const Segment& segment,
                                 int contributors) const;
  // A memory for a tensor of `count` elements on a worker; null if the codec keeps nothing.
  virtual std::unique_ptr<Memory> NewMemory(uint64_t /*count*/) const { return nullptr; }
  // A memory for a segment on a server; null if the codec keeps nothing.
  virtual std::unique_ptr<Memory> NewSumMemory(const Segment& /*segment*/) const { return nullptr; }
  // Whether the code of one worker is also its sum, except for the signs of zeros.
  virtual bool CodeIsSum() const { return false; }
  // Decodes one worker's code at the front of `code` into values[0, segment.count): the result that
  // Add, EncodeSum and Decode of this code alone would give. Returns the size of the code; errors
  // as in Add and Decode. REQUIRES a codec that shares no scalers.
  virtual Result<size_t> DecodeAlone(std::span<const uint8_t> code, const Segment& segment,
                                     float* values) const;
  // The same, but passes the values to `use` in order, block by block, as DecodeTo does. After an
  // error, `use` may have seen some of the blocks. A server that sends such a code, and the workers
  // that receive it, all read it with this function, so that they get the same values bit for bit.
  using BlockVisitor = std::function<void(uint64_t first, std::span<const float> values)>;
  Result<size_t> DecodeAloneTo(std::span<const uint8_t> code, const Segment& segment,
                               const BlockVisitor& use) const;
  // mean[0, n) = the mean over the contributors of elements [first, first + n) of the segment whose
  // sum is `sum` (the first SumSize bytes). kMismatch if the bytes are not a valid sum.
  virtual Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                        float scaler, uint64_t first, uint64_t n, float* mean) const = 0;
  // Decodes the whole segment in order, block-wise, so each block is still in cache when `use`
  // runs.
  virtual Status DecodeTo(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                          float scaler, const BlockVisitor& use) const;
};

}  // namespace tern::codec
