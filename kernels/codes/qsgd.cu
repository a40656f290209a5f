// Encodes many tensors with QSGD (qsgd.h) on a GPU. The kernels:
//
//   MeasureBuckets  computes the norms of buckets; a warp, or a part of it, sums up to 4096
//                   elements of a bucket. If buckets differ in width (bits per element), the last
//                   thread block of a chunk also writes the headers, and computes where the levels
//                   of each bucket begin
//   CodeTiles       encodes levels and packs them in shared memory; one thread block per tile
//   MeasureAndCode  does both, if no bucket spans two tiles and all buckets have the same width
//
// A part is a run of elements of one tensor that has a code of its own; a tile is a range of at
// most 4096 elements of a part; a chunk is neighbouring parts whose codes are sent together
// (kernels/device/tiling.h).
#include <cuda_runtime.h>

#include "kernels/codes/code_bytes.cuh"
#include "kernels/codes/qsgd.h"
#include "kernels/device/eight.cuh"
#include "kernels/device/groups.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = kGroupThreads;
constexpr uint32_t kWarps = kThreads / 32;
constexpr uint32_t kStepElements = 32 * kEight;  // elements that a warp encodes per step
constexpr uint32_t kStageWords =
    kStepElements * kQsgdMaxBits / 32 + 2;  // words that a step can touch
constexpr uint32_t kInfinityBits = 0x7F800000;
static_assert(kThreads == kQsgdStride, "a thread block computes one entry of the ends at a time");

struct EncodeArgs {
  const float* arena;
  DeviceTiling tiling;
  QsgdCoding coding;
  QsgdWorkspace workspace;
  uint8_t* out;
  uint64_t* sizes;
  uint32_t* invalid_count;
};

// The sums of one thread, in the form that SumGroups (groups.cuh) needs. Adds squares only for the
// 2-norm.
template <bool kTwoNorm>
struct LaneSums : QsgdSums {
  __device__ void Add(float v) {
    const uint32_t bits = BitsOf(v) & 0x7FFFFFFF;
    largest = bits > largest ? bits : largest;
    if constexpr (kTwoNorm) squares += double{v} * double{v};
  }
  __device__ void AddSum(const LaneSums& other) {
    largest = other.largest > largest ? other.largest : largest;
    if constexpr (kTwoNorm) squares += other.squares;
  }
  template <typename MapWord>
  __device__ LaneSums MapWords(const MapWord& map_word) const {
    LaneSums sums{};
    sums.largest = map_word(largest);
    if constexpr (kTwoNorm) sums.squares = map_word(squares);
    return sums;
  }
};

// The elements, in the form that SumGroups (groups.cuh) needs.
struct ElementSource {
  const float* v;
  __device__ float Load(uint64_t i) const { return v[i]; }
  __device__ void OnLoaded(uint64_t, float) const {}
};

// Computes the norms of the buckets of this thread block's tile and, if buckets differ in width,
// their widths. A bucket that spans several tiles is completed by one of their thread blocks.
template <bool kTwoNorm>
__device__ void MeasureTile(const EncodeArgs& args) {
  const uint32_t part_index = args.tiling.tiles[blockIdx.x].part;
  const Part part = args.tiling.parts[part_index].part;
  const GroupedPart grouped_part = args.coding.grouped_parts[part_index];
  const QsgdRule& rule = args.coding.rule;
  const auto write_norm = [&](uint64_t bucket, const LaneSums<kTwoNorm>& sums) {
    const QsgdBucket measured_bucket =
        MeasuredQsgdBucket(rule, FloatOf(sums.largest), sums.squares,
                           LengthOfGroup(part.count, grouped_part.size, bucket));
    if (sums.largest >= kInfinityBits) atomicAdd(args.invalid_count, 1u);
    args.workspace.norms[grouped_part.first_group + bucket] = measured_bucket.norm;
    if (rule.bits == 0) {
      args.workspace.widths[grouped_part.first_group + bucket] =
          static_cast<uint8_t>(measured_bucket.width);
    } else {
      StoreFloat(measured_bucket.norm,
                 args.out + args.coding.ranges[part_index].begin + bucket * sizeof(float));
    }
  };
  SumGroups(args.tiling, grouped_part.size,
            static_cast<LaneSums<kTwoNorm>*>(args.workspace.partial_sums),
            args.workspace.num_finished, ElementSource{args.arena + part.begin}, write_norm);
}

// Writes the header of a part, whose buckets differ in width, at byte `header_begin` of `out`.
// Returns the byte at which the part's code ends. `row` is shared memory for SumBefore.
__device__ uint64_t WriteHeader(const EncodeArgs& args, uint32_t part_index, uint64_t header_begin,
                                uint64_t* row) {
  const Part part = args.tiling.parts[part_index].part;
  const GroupedPart grouped_part = args.coding.grouped_parts[part_index];
  const uint64_t num_buckets = QsgdBuckets(part.count, grouped_part.size);
  uint8_t* norms = args.out + header_begin;
  uint8_t* widths = norms + num_buckets * sizeof(float);
  uint8_t* ends = widths + num_buckets;
  uint64_t level_bits = 0;
  for (uint64_t first = 0; first < num_buckets; first += kQsgdStride) {
    const uint64_t bucket = first + threadIdx.x, group = grouped_part.first_group + bucket;
    uint64_t bucket_bits = 0;
    if (bucket < num_buckets) {
      const uint8_t width = *static_cast<volatile uint8_t*>(args.workspace.widths + group);
      bucket_bits = LengthOfGroup(part.count, grouped_part.size, bucket) * width;
      widths[bucket] = width;
      StoreFloat(LoadFresh(args.workspace.norms + group), norms + bucket * sizeof(float));
    }
    uint64_t step_bits;
    const uint64_t bits_before = SumBefore<kThreads>(bucket_bits, row, &step_bits);
    if (bucket < num_buckets) args.workspace.bit_offsets[group] = level_bits + bits_before;
    level_bits += step_bits;
    if (threadIdx.x < sizeof(uint64_t))
      ends[first / kQsgdStride * sizeof(uint64_t) + threadIdx.x] =
          static_cast<uint8_t>(level_bits >> 8 * threadIdx.x);
  }
  const uint64_t levels_begin = header_begin + QsgdHeaderSize(args.coding.rule, num_buckets);
  if (threadIdx.x == 0) args.workspace.byte_offsets[part_index] = levels_begin;
  return levels_begin + (level_bits + 7) / 8;
}

template <bool kTwoNorm>
__global__ void __launch_bounds__(kThreads) MeasureBuckets(EncodeArgs args) {
  __shared__ uint64_t row[kWarps];
  MeasureTile<kTwoNorm>(args);
  if (args.coding.rule.bits > 0) return;
  const uint32_t c = args.tiling.parts[args.tiling.tiles[blockIdx.x].part].part.chunk;
  const TiledChunk chunk = args.tiling.chunks[c];
  if (!IsLastBlockOf(args.workspace.num_finished_of_chunk + c, chunk.tile_end - chunk.tile_begin))
    return;
  uint64_t code_end = chunk.code_begin;
  for (uint32_t part_index = chunk.part_begin; part_index < chunk.part_end; ++part_index)
    code_end = WriteHeader(args, part_index, code_end, row);
  if (threadIdx.x == 0) args.sizes[c] = code_end - chunk.code_begin;
}

// Writes numbers of a few bits each, one after the other, into 32-bit words that were zero.
struct BitWriter {
  uint32_t* next_word;
  uint32_t next_bit;     // the bit of *next_word at which the next number begins
  uint64_t pending = 0;  // the bits that are not written yet

  __device__ void Append(uint32_t code, uint32_t width) {
    pending |= uint64_t{code} << next_bit;
    next_bit += width;
    if (next_bit < 32) return;
    atomicOr(next_word++, static_cast<uint32_t>(pending));
    pending >>= 32;
    next_bit -= 32;
  }
  __device__ void Finish() {
    if (pending != 0) atomicOr(next_word, static_cast<uint32_t>(pending));
  }
};

// Encodes the levels of one tile.
struct TileEncoder {
  const EncodeArgs& args;
  Part part;
  GroupsOfTile groups;
  uint64_t bucket_size;          // elements of a bucket
  const float* norms;            // the norms of the part's buckets
  const uint8_t* widths;         // the widths of the buckets, if they differ
  const uint64_t* level_begins;  // where the levels of each bucket begin, if widths differ
  uint64_t levels_begin_bit;     // the bit of `out` at which the part's levels begin
  double s, last_bucket_s;  // the number of levels of all buckets but the last, and of the last
  uint64_t last_bucket;     // index of the last bucket
  NoiseKey key;

  __device__ explicit TileEncoder(const EncodeArgs& encode_args)
      : TileEncoder(encode_args, encode_args.tiling.tiles[blockIdx.x]) {}
  __device__ TileEncoder(const EncodeArgs& encode_args, const Tile& tile)
      : args(encode_args),
        part(encode_args.tiling.parts[tile.part].part),
        groups(encode_args.coding.grouped_parts[tile.part].size, tile.index) {
    const GroupedPart grouped_part = encode_args.coding.grouped_parts[tile.part];
    const QsgdRule& rule = encode_args.coding.rule;
    bucket_size = grouped_part.size;
    norms = encode_args.workspace.norms + grouped_part.first_group;
    widths = encode_args.workspace.widths + grouped_part.first_group;
    level_begins = encode_args.workspace.bit_offsets + grouped_part.first_group;
    const uint64_t num_buckets = QsgdBuckets(part.count, bucket_size);
    levels_begin_bit = 8 * (rule.bits == 0 ? encode_args.workspace.byte_offsets[tile.part]
                                           : encode_args.coding.ranges[tile.part].begin +
                                                 QsgdHeaderSize(rule, num_buckets));
    last_bucket = num_buckets - 1;
    last_bucket_s = QsgdLevelCount(rule, LengthOfGroup(part.count, bucket_size, last_bucket));
    s = last_bucket == 0 ? last_bucket_s : QsgdLevelCount(rule, bucket_size);
    key = encode_args.coding.key;
    key.tensor = part.tensor;
  }
  __device__ uint32_t WidthOf(uint64_t bucket) const {
    const int fixed_width = args.coding.rule.bits;
    return fixed_width > 0 ? static_cast<uint32_t>(fixed_width) : widths[bucket];
  }
  // The bit of `out` at which the level of element `index` of the part begins.
  __device__ uint64_t FirstBitOf(uint64_t index, const GroupsOfTile::Position& position) const {
    const int fixed_width = args.coding.rule.bits;
    if (fixed_width > 0) return levels_begin_bit + index * static_cast<uint32_t>(fixed_width);
    return levels_begin_bit + level_begins[position.group] +
           position.offset * widths[position.group];
  }

  __device__ QsgdBucket BucketOf(uint64_t b) const {
    return {norms[b], 0, b == last_bucket ? last_bucket_s : s};
  }
  __device__ uint32_t SignedCode(float v, uint32_t level, uint32_t width) const {
    const bool is_negative = v < 0 && level > 0 && !args.coding.rule.uses_intervals;
    return is_negative ? level | 1u << (width - 1) : level;
  }

  // Encodes element `index` of the part with the exact, slow function. REQUIRES a norm above 0.
  __device__ uint32_t ExactCode(uint64_t index) const {
    const float v = args.arena[part.begin + index];
    const uint64_t b = index / bucket_size, element = part.first + index;
    const uint32_t level =
        QsgdLevel(args.coding.rule.uses_intervals, v, BucketOf(b), NoiseDraw(key, element, 0),
                  [&] { return NoiseDraw(key, element, 1); });
    return SignedCode(v, level, WidthOf(b));
  }

  // Encodes elements [index, index + count) of the part; `position` is the position of the first in
  // its group. Tries QuickLevel for all elements first, and then computes the undecided elements
  // with ExactCode, in one loop.
  __device__ void CodeEight(uint64_t index, uint32_t count, const GroupsOfTile::Position& position,
                            BitWriter* writer) const {
    const bool uses_intervals = args.coding.rule.uses_intervals;
    const EightFloats v = Load(args.arena + part.begin + index, count);
    const PhiloxWords draws = NoiseOfEight(key, part.first + index);
    bool has_norm = false;  // whether the norm of the bucket is above 0
    QsgdQuick quick;
    uint32_t codes[kEight] = {}, width = 0, undecided = 0;
    const auto enter_bucket = [&](uint64_t b, uint32_t) {
      const QsgdBucket bucket = BucketOf(b);
      has_norm = bucket.norm > 0;
      quick = QsgdQuickOf(uses_intervals, bucket);
      width = WidthOf(b);
    };
    groups.VisitEight(position, count, enter_bucket, [&](uint32_t k) {
      if (k >= count) return;
      uint32_t level = 0;
      const float x = uses_intervals ? v.x[k] : fabsf(v.x[k]);
      if (!QuickLevel(quick, x, DrawOf(draws, k), &level) && has_norm) undecided |= 1u << k;
      codes[k] = SignedCode(v.x[k], level, width);
    });
    for (; undecided != 0; undecided &= undecided - 1) {
      const auto undecided_index = static_cast<uint32_t>(__ffs(static_cast<int>(undecided))) - 1;
      const uint32_t code = ExactCode(index + undecided_index);
#pragma unroll
      for (uint32_t k = 0; k < kEight; ++k) codes[k] = k == undecided_index ? code : codes[k];
    }
    groups.VisitEight(
        position, count, [&](uint64_t b, uint32_t) { width = WidthOf(b); },
        [&](uint32_t k) {
          if (k < count) writer->Append(codes[k], width);
        });
    writer->Finish();
  }

  // Copies bits [begin, end) of `out` from the shared memory `stage`, and sets `stage` to zero. The
  // first word of `stage` is the word of `out` that contains bit `begin`.
  __device__ void CopyOut(uint32_t* stage, uint64_t begin, uint64_t end) const {
    const uint64_t first_word = begin / 32;
    const auto num_words = static_cast<uint32_t>((end + 31) / 32 - first_word);
    auto* out_words = reinterpret_cast<uint32_t*>(args.out) + first_word;
    for (uint32_t j = threadIdx.x % 32; j < num_words; j += 32) {
      const uint32_t word = stage[j];
      stage[j] = 0;
      const uint64_t bit = (first_word + j) * 32;
      if (bit >= begin && bit + 32 <= end) {
        out_words[j] = word;
      } else if (args.coding.rule.bits == 0) {
        atomicOr(out_words + j, word);  // Other warps write other bits of this word.
      } else {
        for (uint32_t b = 0; b < 4; ++b) {
          if (bit + 8 * b >= begin && bit + 8 * b < end)
            args.out[bit / 8 + b] = static_cast<uint8_t>(word >> 8 * b);
        }
      }
    }
  }
};

// Encodes the levels of this block's tile.
__device__ void CodeTile(const EncodeArgs& args) {
  __shared__ uint32_t stages[kWarps][kStageWords];
  const TileEncoder tile(args);
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint64_t begin = uint64_t{args.tiling.tiles[blockIdx.x].index} * kTile;
  uint32_t* stage = stages[warp];
  for (uint32_t j = lane; j < kStageWords; j += 32) stage[j] = 0;
  for (uint32_t step = warp * kStepElements; step < kTile; step += kWarps * kStepElements) {
    if (begin + step >= tile.part.count) break;
    const uint32_t first = step + lane * kEight;
    const uint64_t index = begin + first;
    const uint32_t count = index < tile.part.count ? AtMostEight(tile.part.count - index) : 0;
    const GroupsOfTile::Position position = tile.groups.PositionOf(first);
    const uint64_t begin_bit = count == 0 ? 0 : tile.FirstBitOf(index, position);
    // When __shfl_sync returns, all lanes have set `stage` to zero.
    const uint64_t warp_begin_bit = __shfl_sync(kAllLanes, begin_bit, 0);
    __syncwarp();
    uint64_t end_bit = 0;
    if (count > 0) {
      const auto bit_in_word = static_cast<uint32_t>(begin_bit - warp_begin_bit / 32 * 32);
      BitWriter writer{stage + bit_in_word / 32, bit_in_word % 32};
      tile.CodeEight(index, count, position, &writer);
      end_bit = warp_begin_bit / 32 * 32 + static_cast<uint64_t>(writer.next_word - stage) * 32 +
                writer.next_bit;
    }
    const uint64_t num_remaining = tile.part.count - (begin + step);
    const uint32_t last_lane =
        (static_cast<uint32_t>(num_remaining < kStepElements ? num_remaining : kStepElements) - 1) /
        kEight;
    const uint64_t warp_end_bit = __shfl_sync(kAllLanes, end_bit, last_lane);
    __syncwarp();
    tile.CopyOut(stage, warp_begin_bit, warp_end_bit);
    __syncwarp();
  }
}

__global__ void __launch_bounds__(kThreads) CodeTiles(EncodeArgs args) { CodeTile(args); }

template <bool kTwoNorm>
__global__ void __launch_bounds__(kThreads) MeasureAndCode(EncodeArgs args) {
  MeasureTile<kTwoNorm>(args);
  __syncthreads();
  CodeTile(args);
}

}  // namespace

int QsgdOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                 const QsgdCoding& coding, const QsgdWorkspace& workspace, uint8_t* out,
                 uint64_t out_bytes, uint64_t* sizes, uint32_t* invalid_count) {
  const EncodeArgs args{arena, tiling, coding, workspace, out, sizes, invalid_count};
  const bool has_two_norm = coding.rule.uses_two_norm, has_same_width = coding.rule.bits > 0;
  if (has_same_width && coding.bucket_size != 0 && kTile % coding.bucket_size == 0)
    return Launch(has_two_norm ? MeasureAndCode<true> : MeasureAndCode<false>, tiling.tile_count,
                  kThreads, stream, args);
  if (!has_same_width) {
    const int error = cudaMemsetAsync(out, 0, out_bytes, stream);
    if (error != 0) return error;
  }
  const int error = Launch(has_two_norm ? MeasureBuckets<true> : MeasureBuckets<false>,
                           tiling.tile_count, kThreads, stream, args);
  if (error != 0) return error;
  return Launch(CodeTiles, tiling.tile_count, kThreads, stream, args);
}

}  // namespace tern::kernels
