// QSGD on a GPU, of many tensors:
//
//   MeasureBuckets  computes norms; one warp per block of a bucket. If buckets differ in width, the
//                   last thread block of a chunk also finds where each bucket's levels begin
//   CodeTiles       encodes levels, packed in shared memory; one thread block per tile
//   MeasureAndCode  does both, if no bucket spans two tiles and all have one width
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
constexpr uint32_t kStep = 32 * kEight;  // elements that a warp encodes per step
constexpr uint32_t kStageWords = kStep * kQsgdMaxBits / 32 + 2;
constexpr uint32_t kInfinityBits = 0x7F800000;
static_assert(kThreads == kQsgdStride, "a thread block plans the buckets that have one end");

struct EncodeArgs {
  const float* arena;
  DeviceTiling tiling;
  QsgdCoding coding;
  QsgdWorkspace workspace;
  uint8_t* out;
  uint64_t* sizes;
  uint32_t* bad;
};

// Adds up squares only for the 2-norm.
template <bool kTwoNorm>
struct LaneSums : QsgdSums {
  __device__ void Add(float v) {
    const uint32_t bits = BitsOf(v) & 0x7FFFFFFF;
    largest = bits > largest ? bits : largest;
    if constexpr (kTwoNorm) squares += double{v} * double{v};
  }
  __device__ void Join(const LaneSums& more) {
    largest = more.largest > largest ? more.largest : largest;
    if constexpr (kTwoNorm) squares += more.squares;
  }
  template <typename From>
  __device__ LaneSums Get(const From& from) const {
    LaneSums got{};
    got.largest = from(largest);
    if constexpr (kTwoNorm) got.squares = from(squares);
    return got;
  }
};

struct Source {
  const float* v;
  __device__ float Load(uint64_t i) const { return v[i]; }
  __device__ void Consume(uint64_t, float) const {}
};

template <bool kTwoNorm>
__device__ void MeasureTile(const EncodeArgs& args) {
  const uint32_t p = args.tiling.tiles[blockIdx.x].part;
  const Part part = args.tiling.parts[p].part;
  const GroupedPart groups = args.coding.groups[p];
  const QsgdRule& rule = args.coding.rule;
  const auto finish = [&](uint64_t bucket, const LaneSums<kTwoNorm>& sums) {
    const QsgdBucket measured = QsgdMeasured(rule, FloatOf(sums.largest), sums.squares,
                                             LengthOfGroup(part.count, groups.size, bucket));
    if (sums.largest >= kInfinityBits) atomicAdd(args.bad, 1u);
    args.workspace.norms[groups.first_group + bucket] = measured.norm;
    if (rule.bits == 0) {
      args.workspace.widths[groups.first_group + bucket] = static_cast<uint8_t>(measured.width);
    } else {
      StoreFloat(measured.norm, args.out + args.coding.ranges[p].begin + bucket * sizeof(float));
    }
  };
  SumGroups(args.tiling, groups.size, static_cast<LaneSums<kTwoNorm>*>(args.workspace.partial),
            args.workspace.done, Source{args.arena + part.begin}, finish);
}

// Writes the header of a part whose buckets differ in width, at byte `at` of `out`. Returns the end
// of the part's code.
__device__ uint64_t WriteHeader(const EncodeArgs& args, uint32_t p, uint64_t at, uint64_t* row) {
  const Part part = args.tiling.parts[p].part;
  const GroupedPart groups = args.coding.groups[p];
  const uint64_t buckets = QsgdBuckets(part.count, groups.size);
  uint8_t* norms = args.out + at;
  uint8_t* widths = norms + buckets * sizeof(float);
  uint8_t* ends = widths + buckets;
  uint64_t bits = 0;
  for (uint64_t first = 0; first < buckets; first += kQsgdStride) {
    const uint64_t bucket = first + threadIdx.x, group = groups.first_group + bucket;
    uint64_t mine = 0;
    if (bucket < buckets) {
      const uint8_t width = *static_cast<volatile uint8_t*>(args.workspace.widths + group);
      mine = LengthOfGroup(part.count, groups.size, bucket) * width;
      widths[bucket] = width;
      StoreFloat(LoadFresh(args.workspace.norms + group), norms + bucket * sizeof(float));
    }
    uint64_t total;
    const uint64_t before = SumBefore<kThreads>(mine, row, &total);
    if (bucket < buckets) args.workspace.bits[group] = bits + before;
    bits += total;
    if (threadIdx.x < sizeof(uint64_t))
      ends[first / kQsgdStride * sizeof(uint64_t) + threadIdx.x] =
          static_cast<uint8_t>(bits >> 8 * threadIdx.x);
  }
  const uint64_t levels = at + QsgdHeaderSize(args.coding.rule, buckets);
  if (threadIdx.x == 0) args.workspace.levels[p] = levels;
  return levels + (bits + 7) / 8;
}

template <bool kTwoNorm>
__global__ void __launch_bounds__(kThreads) MeasureBuckets(EncodeArgs args) {
  __shared__ uint64_t row[kWarps];
  MeasureTile<kTwoNorm>(args);
  if (args.coding.rule.bits > 0) return;
  const uint32_t c = args.tiling.parts[args.tiling.tiles[blockIdx.x].part].part.chunk;
  const TiledChunk chunk = args.tiling.chunks[c];
  if (!IsLastOf(args.workspace.chunk_done + c, chunk.tile_end - chunk.tile_begin)) return;
  uint64_t at = chunk.out;
  for (uint32_t p = chunk.part_begin; p < chunk.part_end; ++p) at = WriteHeader(args, p, at, row);
  if (threadIdx.x == 0) args.sizes[c] = at - chunk.out;
}

// Appends numbers of a few bits each to words that are zero.
struct BitWriter {
  uint32_t* to;
  uint32_t used;  // bits of *to that precede the next number
  uint64_t held = 0;

  __device__ void Append(uint32_t code, uint32_t width) {
    held |= uint64_t{code} << used;
    used += width;
    if (used < 32) return;
    atomicOr(to++, static_cast<uint32_t>(held));
    held >>= 32;
    used -= 32;
  }
  __device__ void Finish() {
    if (held != 0) atomicOr(to, static_cast<uint32_t>(held));
  }
};

// What is needed to encode the levels of one tile.
struct CodedTile {
  const EncodeArgs& args;
  Part part;
  GroupsOfTile groups;
  uint64_t size;          // elements of a bucket
  const float* norms;     // of the part's buckets
  const uint8_t* widths;  // `widths` and `bits`: used where buckets differ in width
  const uint64_t* bits;
  uint64_t row;      // the bit of `out` at which the part's levels begin
  double s, last_s;  // `last_s`: s of the last bucket; `s`: of all others
  uint64_t last;     // index of the last bucket
  NoiseKey key;

  __device__ explicit CodedTile(const EncodeArgs& all)
      : CodedTile(all, all.tiling.tiles[blockIdx.x]) {}
  __device__ CodedTile(const EncodeArgs& all, const Tile& tile)
      : args(all),
        part(all.tiling.parts[tile.part].part),
        groups(all.coding.groups[tile.part].size, tile.index) {
    const GroupedPart group = all.coding.groups[tile.part];
    const QsgdRule& rule = all.coding.rule;
    size = group.size;
    norms = all.workspace.norms + group.first_group;
    widths = all.workspace.widths + group.first_group;
    bits = all.workspace.bits + group.first_group;
    const uint64_t buckets = QsgdBuckets(part.count, size);
    row = 8 * (rule.bits == 0 ? all.workspace.levels[tile.part]
                              : all.coding.ranges[tile.part].begin + QsgdHeaderSize(rule, buckets));
    last = buckets - 1;
    last_s = QsgdLevelCount(rule, LengthOfGroup(part.count, size, last));
    s = last == 0 ? last_s : QsgdLevelCount(rule, size);
    key = all.coding.key;
    key.tensor = part.tensor;
  }
  __device__ uint32_t WidthOf(uint64_t bucket) const {
    const int same = args.coding.rule.bits;
    return same > 0 ? static_cast<uint32_t>(same) : widths[bucket];
  }
  // The bit of `out` at which the level of the part's element `at` begins.
  __device__ uint64_t BitOf(uint64_t at, const GroupsOfTile::Position& position) const {
    const int same = args.coding.rule.bits;
    if (same > 0) return row + at * static_cast<uint32_t>(same);
    return row + bits[position.group] + position.inside * widths[position.group];
  }

  __device__ QsgdBucket BucketOf(uint64_t b) const { return {norms[b], 0, b == last ? last_s : s}; }
  __device__ uint32_t SignedCode(float v, uint32_t level, uint32_t width) const {
    const bool minus = v < 0 && level > 0 && !args.coding.rule.intervals;
    return minus ? level | 1u << (width - 1) : level;
  }

  // The level by exact arithmetic, slow. REQUIRES a bucket with a norm above 0.
  __device__ uint32_t ExactCode(uint64_t at) const {
    const float v = args.arena[part.begin + at];
    const uint64_t b = at / size, element = part.first + at;
    const uint32_t level =
        QsgdLevel(args.coding.rule.intervals, v, BucketOf(b), NoiseDraw(key, element, 0),
                  [&] { return NoiseDraw(key, element, 1); });
    return SignedCode(v, level, WidthOf(b));
  }

  // Encodes elements [at, at + count) of the part, at `position` in their group. The quick test
  // runs for all of them first, so that the code has one slow path, not eight.
  __device__ void CodeEight(uint64_t at, uint32_t count, const GroupsOfTile::Position& position,
                            BitWriter* to) const {
    const bool intervals = args.coding.rule.intervals;
    const Eight v = Load(args.arena + part.begin + at, count);
    const PhiloxWords draws = NoiseOfEight(key, part.first + at);
    bool has_norm = false;  // whether the bucket's norm is above 0
    QsgdQuick quick;
    uint32_t codes[kEight] = {}, width = 0, unsure = 0;
    const auto enter = [&](uint64_t b, uint32_t) {
      const QsgdBucket bucket = BucketOf(b);
      has_norm = bucket.norm > 0;
      quick = QuicklyOf(intervals, bucket);
      width = WidthOf(b);
    };
    groups.ForEight(position, count, enter, [&](uint32_t k) {
      if (k >= count) return;
      uint32_t level = 0;
      const float x = intervals ? v.x[k] : fabsf(v.x[k]);
      if (!QuickLevel(quick, x, DrawOf(draws, k), &level) && has_norm) unsure |= 1u << k;
      codes[k] = SignedCode(v.x[k], level, width);
    });
    for (; unsure != 0; unsure &= unsure - 1) {
      const auto which = static_cast<uint32_t>(__ffs(static_cast<int>(unsure))) - 1;
      const uint32_t code = ExactCode(at + which);
#pragma unroll
      for (uint32_t k = 0; k < kEight; ++k) codes[k] = k == which ? code : codes[k];
    }
    groups.ForEight(
        position, count, [&](uint64_t b, uint32_t) { width = WidthOf(b); },
        [&](uint32_t k) {
          if (k < count) to->Append(codes[k], width);
        });
    to->Finish();
  }

  // Copies bits [begin, end) from `stage`, whose first word has bit `begin`, to `out`, and zeroes
  // `stage`.
  __device__ void CopyOut(uint32_t* stage, uint64_t begin, uint64_t end) const {
    const uint64_t first = begin / 32;
    const auto words = static_cast<uint32_t>((end + 31) / 32 - first);
    auto* to = reinterpret_cast<uint32_t*>(args.out) + first;
    for (uint32_t j = threadIdx.x % 32; j < words; j += 32) {
      const uint32_t word = stage[j];
      stage[j] = 0;
      const uint64_t bit = (first + j) * 32;
      if (bit >= begin && bit + 32 <= end) {
        to[j] = word;
      } else if (args.coding.rule.bits == 0) {
        atomicOr(to + j, word);  // other warps own bits of this word
      } else {
        for (uint32_t b = 0; b < 4; ++b) {
          if (bit + 8 * b >= begin && bit + 8 * b < end)
            args.out[bit / 8 + b] = static_cast<uint8_t>(word >> 8 * b);
        }
      }
    }
  }
};

__device__ void CodeTile(const EncodeArgs& args) {
  __shared__ uint32_t stages[kWarps][kStageWords];
  const CodedTile tile(args);
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint64_t begin = uint64_t{args.tiling.tiles[blockIdx.x].index} * kTile;
  uint32_t* stage = stages[warp];
  for (uint32_t j = lane; j < kStageWords; j += 32) stage[j] = 0;
  for (uint32_t step = warp * kStep; step < kTile; step += kWarps * kStep) {
    if (begin + step >= tile.part.count) break;
    const uint32_t first = step + lane * kEight;
    const uint64_t at = begin + first;
    const uint32_t count = at < tile.part.count ? EightOf(tile.part.count - at) : 0;
    const GroupsOfTile::Position position = tile.groups.At(first);
    const uint64_t from = count == 0 ? 0 : tile.BitOf(at, position);
    // By now all lanes have zeroed `stage`.
    const uint64_t row_begin = __shfl_sync(kAllLanes, from, 0);
    __syncwarp();
    uint64_t to = 0;
    if (count > 0) {
      const auto inside = static_cast<uint32_t>(from - row_begin / 32 * 32);
      BitWriter writer{stage + inside / 32, inside % 32};
      tile.CodeEight(at, count, position, &writer);
      to = row_begin / 32 * 32 + static_cast<uint64_t>(writer.to - stage) * 32 + writer.used;
    }
    const uint64_t rest = tile.part.count - (begin + step);
    const uint32_t last = (static_cast<uint32_t>(rest < kStep ? rest : kStep) - 1) / kEight;
    const uint64_t row_end = __shfl_sync(kAllLanes, to, last);
    __syncwarp();
    tile.CopyOut(stage, row_begin, row_end);
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
                 uint64_t out_bytes, uint64_t* sizes, uint32_t* bad) {
  const EncodeArgs args{arena, tiling, coding, workspace, out, sizes, bad};
  const bool two = coding.rule.two_norm, same_width = coding.rule.bits > 0;
  if (same_width && coding.bucket != 0 && kTile % coding.bucket == 0)
    return Launch(two ? MeasureAndCode<true> : MeasureAndCode<false>, tiling.tile_count, kThreads,
                  stream, args);
  if (!same_width) {
    const int cleared = cudaMemsetAsync(out, 0, out_bytes, stream);
    if (cleared != 0) return cleared;
  }
  const int measured = Launch(two ? MeasureBuckets<true> : MeasureBuckets<false>, tiling.tile_count,
                              kThreads, stream, args);
  if (measured != 0) return measured;
  return Launch(CodeTiles, tiling.tile_count, kThreads, stream, args);
}

}  // namespace tern::kernels
