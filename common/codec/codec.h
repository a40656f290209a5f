// A codec turns a worker's gradient into bytes (a code), adds the workers' codes on the server, and
// turns the bytes of the sum into the mean gradient. It works on segments: ranges of elements of
// one tensor. A chunk, the unit of a push, is a row of segments, each coded by the codec of its
// tensor and starting at a byte boundary. A codec's name stands for its byte format: a codec with
// another format must get another name.
//
//   worker:  Rotate (whole tensor, if the codec rotates)
//            Prepare (whole tensor: computes scaler and clip level from statistics)
//            all workers take the largest scaler of any worker, if the codec shares scalers
//            Encode (segment)
//   host:    NewAccumulator, Add (ranks of this host, once each, any order), EncodePartial; only if
//            adds_partial_sums
//   server:  NewAccumulator, Add (any subset of the ranks, once each, any order) or AddPartial
//            (several ranks at once), EncodeSum
//   worker:  Decode (any range of the segment, as often as wanted)
//
// The ranks that were added to a sum are its contributors. The server sends their number with the
// sum, and the mean is the sum divided by this number.
//
// Some codecs add what a code left out of a gradient to the next gradient. They keep the difference
// in a Memory: one per tensor on each worker and, for codecs whose server encodes sums again with
// error feedback, one per segment on the server:
//
//   worker:  Compensate (whole tensor), Prepare, Encode, DecodeSingleCode, Update (segment)
//   server:  EncodeSum calls Compensate and Update of the server's memory itself
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
  double clip_sigma = 2.5;         // clip level in standard deviations (c of eq. 9)
  bool scaler_per_worker = false;  // each code carries its worker's scaler; the server adds floats
  uint64_t scaler_elements = 0;    // elements per scaler, for ternary codecs and qsgd_shared;
                                   // 0: one scaler per tensor
  // Codecs whose codes are random rotate blocks of this many elements (kernels/codes/rotate.h). 0:
  // they do not. `seed` is the job's, which gives the rotation its signs.
  uint64_t rotate = 0;
  uint64_t seed = 0;
  bool error_feedback = false;  // adds a memory to a deterministic codec that has none
  // For codecs that encode the sum again. True: the server sends the sum to workers as a code.
  // False: EncodeSum writes floats, because the server itself applies the sum to its parameters.
  bool coded_sums = true;
  // The `exchange` section of the job file. Some codecs read settings from the subsection with
  // their own name; QSGD and topk use the structs below instead.
  pb::Exchange keys;

  struct Qsgd {
    enum class Norm { kMax, kTwo };
    enum class Layout { kSign, kIntervals };
    enum class Levels { kBits, kGiven, kSqrtN, kSqrtMN, kSqrtMPN };
    int bits = 4;           // bits per element, 2 to 16, if levels is kBits
    uint64_t bucket = 512;  // elements that share a norm; 0: all elements of the tensor
    Norm norm = Norm::kMax;
    Layout layout = Layout::kSign;
    // How many levels lie between 0 and the norm (qsgd_levels.h). kBits: as many as `bits` allow.
    // kGiven: `s`. The others, for a bucket of n elements: kSqrtN: sqrt(n) / 2; kSqrtMN:
    // sqrt(m n) / 2; kSqrtMPN: sqrt(m p n) / 2 (the algorithm PQASGD).
    Levels levels = Levels::kBits;
    double s = 0;              // the number of levels, if levels is kGiven
    uint64_t samples = 1;      // m: samples that a worker processes per step
    uint64_t local_steps = 1;  // p: steps between two exchanges
    // Whether the server sends the mean of the codes as floats, instead of encoding it again.
    bool exact_sums = false;
  } qsgd;

  // Deep gradient compression (Lin et al. 2018). dgc_memory.h defines momentum, nesterov, masking
  // and clip_norm.
  struct TopK {
    double ratio = 0.001;        // share of a tensor's elements that is sent
    double sample_ratio = 0.01;  // share of a tensor's elements that gives the first threshold
    // What happens if too many elements exceed the threshold. True: exactly the wanted number is
    // selected. False: the threshold is raised.
    bool resample = true;
    double momentum = 0;  // the factor m by which each step multiplies the momentum
    bool nesterov = false;
    bool masking = true;
    // The largest 2-norm of a tensor's gradient on one worker; larger gradients are scaled down. 0:
    // no limit. For N workers the paper takes the limit for the mean gradient divided by sqrt(N).
    double clip_norm = 0;
    uint64_t warmup_rounds = 0;  // first rounds, in which the share sent falls stepwise to `ratio`
    double warmup_ratio = 0.25;  // the first share, and the factor from each share to the next
  } topk;
};

// What a worker computes from a tensor before it encodes it.
struct EncodeParams {
  float scaler = 0;  // For codecs that share scalers, the largest of all workers replaces this one.
  float clip = 0;    // Values are clamped to [-clip, clip]; infinity: not clamped.
  // Sparse codecs: elements <= low are sent as low_value, elements >= high as high_value.
  float low = 0, high = 0, low_value = 0, high_value = 0;
};

// Elements [begin, begin + count) of tensor `tensor`.
struct Segment {
  uint32_t tensor = 0;
  uint64_t begin = 0;
  uint64_t count = 0;
  // Number of neighbouring elements of the tensor that contribute to one output of its layer.
  uint64_t column = 1;
};

// The state that a codec keeps for a tensor (or a segment of it) from round to round.
class Memory {
 public:
  virtual ~Memory() = default;
  // Returns the values to encode in place of g, for elements [begin, begin + g.size()) of the
  // tensor or segment: v, which it has set and which may be the array of g, or an array of its own
  // with these elements, which does not change before Update. The choice is the same in all calls.
  [[nodiscard]] virtual std::span<const float> Compensate(uint64_t begin, std::span<const float> g,
                                                          std::span<float> v) = 0;
  // Keeps the difference between v, what Compensate returned, and `sent`, the values that receivers
  // decode from the code of v, for the elements from `begin` on.
  virtual void Update(uint64_t begin, std::span<const float> v, std::span<const float> sent) = 0;
  // The same if the values of v at `positions`, none of them 0, are sent exactly, and no others.
  virtual void UpdateSparse(uint64_t begin, std::span<const float> v,
                            std::span<const uint32_t> positions);
  // Adds references to all arrays of this memory to `state`, so that a checkpoint can save and
  // restore them.
  virtual void AddState(SavedState* state) = 0;
  // Returns the memory to its initial state.
  virtual void Reset() = 0;
};

// The inputs of EncodeSum besides the sum itself, for codecs that encode sums again.
struct RecodeInputs {
  kernels::NoiseKey noise;  // The key of the random numbers; the codec sets its field `tensor`.
  // The memory from NewSumMemory, null if the codec has none. Must outlive the accumulator.
  Memory* memory = nullptr;
};

// Adds up one segment over the workers that contribute to a round.
class Accumulator {
 public:
  virtual ~Accumulator() = default;
  // Adds the code of this segment at the front of `bytes`, from worker `rank`, and returns the size
  // of the code. Checks the whole code before it adds: after an error (kMismatch) the sum is
  // unchanged. REQUIRES a rank below the number of workers, and each rank at most once. Codecs that
  // add floats keep a copy of the code until all lower ranks have been added or the sum is
  // requested, so the result does not depend on the order of arrival.
  virtual Result<size_t> Add(int rank, std::span<const uint8_t> bytes) = 0;
  // Adds a code as Add does, but may keep a reference to `bytes`: the code is checked immediately,
  // and may be added later, together with the codes of other workers, in one pass.
  virtual Result<size_t> AddRetained(int rank, const Bytes& bytes) {
    return Add(rank, bytes.span());
  }
  // Adds a partial sum of this segment at the front of `bytes`: what EncodePartial of another
  // accumulator appended after it had added `ranks`, and nothing else. Returns its size. Checks all
  // of it first, as Add does; k ranks cannot add up to more than k codes. REQUIRES a codec that
  // adds_partial_sums(), and ascending ranks, each at most once, below the number of workers.
  // Codecs that add floats add it where its lowest rank stands.
  virtual Result<size_t> AddPartial(std::span<const int> ranks, std::span<const uint8_t> bytes);
  // Appends the sum of the codes for AddPartial: at most MaxSumSize(segment, contributors) bytes.
  // REQUIRES a codec that adds_partial_sums(), and at least one contributor. Add must not be called
  // afterwards.
  virtual void EncodePartial(std::vector<uint8_t>* out) { EncodeSum(out); }
  // Appends the code of the sum, which the server sends to the workers: at most MaxSumSize(segment,
  // contributors) bytes, where contributors is the number of ranks added. A second call appends the
  // same bytes, unless there is a memory. REQUIRES at least one contributor. Add must not be called
  // afterwards.
  virtual void EncodeSum(std::vector<uint8_t>* out) = 0;
};

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string_view name() const = 0;
  // Whether all workers use the same scalers for a tensor with this codec.
  virtual bool shares_scaler() const { return false; }
  // How many elements of a tensor share one scaler; Prepare gets one such range at a time, and a
  // segment never extends over two ranges. 0: one scaler per tensor, and Prepare gets all of it.
  virtual uint64_t scaler_elements() const { return 0; }
  // Whether Prepare gets the values of all tensors with this codec at once, and its result is used
  // for each of these tensors. Their gradients are then sent together, in one bucket (a range of
  // the model).
  virtual bool prepares_tensors_together() const { return false; }
  // Whether codes are random. The square of a random code does not approximate the square of the
  // gradient.
  virtual bool is_stochastic() const { return false; }
  // Whether Prepare and Encode get values that Rotate has rotated. Decode and its relatives rotate
  // back, so that their values are gradients with any codec.
  virtual bool rotates() const { return false; }
  // The name of the codec that encodes what is rotated.
  virtual std::string_view unrotated_name() const { return name(); }
  // Sets y[0, g.size()) to the rotated values of g, elements [begin, begin + g.size()) of a tensor.
  // y may be the array of g. REQUIRES rotates(), and a range that begins and ends where chunks may.
  virtual void Rotate(uint32_t /*tensor*/, uint64_t /*begin*/, std::span<const float> /*g*/,
                      float* /*y*/) const {}
  // How many neighbouring elements are coded together, counted from the tensor's first element.
  // Chunks begin and end only between such groups, so that the size of chunks does not change
  // codes.
  virtual uint64_t Granularity(uint64_t /*column*/) const { return 1; }
  // Computes scaler and clip level of a whole tensor (or of one range of scaler_elements()) from
  // its statistics and values; `values` is empty if they are on a device. REQUIRES
  // stats.is_finite: the caller refuses gradients that are not finite. clip.h defines the results
  // for ternary codecs and qsgd_shared.
  virtual EncodeParams Prepare(const kernels::Stats& stats, std::span<const float> values,
                               const kernels::NoiseKey& noise) const = 0;
  // Appends the code of g[0, segment.count). Takes the number of the tensor from segment.tensor,
  // not from noise.tensor.
  virtual void Encode(const float* g, const Segment& segment, const EncodeParams& params,
                      const kernels::NoiseKey& noise, std::vector<uint8_t>* out) const = 0;
  // The most bytes that Encode appends for the segment.
  virtual size_t MaxEncodedSize(const Segment& segment) const = 0;
  // Returns an accumulator for the codes of ranks 0 to workers - 1.
  virtual std::unique_ptr<Accumulator> NewAccumulator(
      const Segment& segment, int workers, const RecodeInputs& recode_inputs = {}) const = 0;
  // The most bytes that EncodeSum appends. More contributors never give a smaller number.
  virtual size_t MaxSumSize(const Segment& segment, int contributors) const = 0;
  // The size in bytes of the coded sum at the front of `bytes`; kMismatch if that is invalid. This
  // default is for codecs whose sums always have MaxSumSize bytes.
  virtual Result<size_t> SumSize(std::span<const uint8_t> bytes, const Segment& segment,
                                 int contributors) const;
  // Whether workers of one host may add up their codes before the server adds the rest: whether the
  // sum of the codes is known without decoding, and is not coded again.
  virtual bool adds_partial_sums() const { return false; }
  // Returns a memory for a tensor of `count` elements on a worker; null if the codec has none.
  virtual std::unique_ptr<Memory> NewMemory(uint64_t /*count*/) const { return nullptr; }
  // Whether the codec has a memory on a worker.
  bool HasMemory() const { return NewMemory(1) != nullptr; }
  // Returns a memory for a segment on a server; null if the codec has none.
  virtual std::unique_ptr<Memory> NewSumMemory(const Segment& /*segment*/) const { return nullptr; }
  // Whether the code of a single worker is also a valid code of the sum, except for signs of zeros.
  virtual bool SingleCodeIsSum() const { return false; }
  // Decodes one worker's code at the front of `code` into values[0, segment.count). The values are
  // those that Decode gives for a sum with this code as its only contribution. Returns the size of
  // the code. kMismatch if the code is invalid. REQUIRES a codec that does not share scalers.
  virtual Result<size_t> DecodeSingleCode(std::span<const uint8_t> code, const Segment& segment,
                                          float* values) const;
  // Updates `memory` after this codec has encoded v, the values of the segment, as `code`. REQUIRES
  // what DecodeSingleCode does.
  virtual Status UpdateMemory(std::span<const uint8_t> code, const Segment& segment,
                              std::span<const float> v, Memory* memory) const;
  // Decodes one code as DecodeSingleCode does, but passes the values to `use` in order, block by
  // block. After an error, `use` may have been called for some of the blocks. If a server sends a
  // code of weights or changes, the server and the workers decode the code with this function, so
  // that all get the same values bit for bit.
  using BlockVisitor = std::function<void(uint64_t first, std::span<const float> values)>;
  Result<size_t> DecodeSingleCodeInBlocks(std::span<const uint8_t> code, const Segment& segment,
                                          const BlockVisitor& use) const;
  // Sets mean[0, n) to the mean over the contributors of elements [first, first + n) of the
  // segment. `sum` is the coded sum of the segment, exactly SumSize bytes. kMismatch if the bytes
  // are not a valid sum; kDiverged if they are one whose floats are not all finite.
  virtual Status Decode(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                        float scaler, uint64_t first, uint64_t n, float* mean) const = 0;
  // Decodes the means of the whole segment in order, block by block, and calls `use` for each block
  // while the block is still in the cache.
  virtual Status DecodeInBlocks(std::span<const uint8_t> sum, const Segment& segment,
                                int contributors, float scaler, const BlockVisitor& use) const;
};

// Whether a code stands for the gradient itself, exact or rounded: it is not random, and contains
// nothing of earlier gradients.
inline bool SendsValues(const Codec& codec) { return !codec.is_stochastic() && !codec.HasMemory(); }

}  // namespace tern::codec
