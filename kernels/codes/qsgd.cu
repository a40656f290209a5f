// QSGD on a GPU, of many tensors:
//
//   MeasureBuckets  a warp a block of a bucket: norms; the last thread block of a chunk, where
//                   buckets differ in width, adds up where each one's levels begin
//   CodeTiles       a thread block a tile: levels, put together in shared memory
//   MeasureAndCode  both, where no bucket is in two tiles and all have one width
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
constexpr uint32_t kStep = 32 * kEight;  // elements that a warp codes at a time
constexpr uint32_t kStageWords = kStep * kQsgdMostBits / 32 + 2;
constexpr uint32_t kInfinityBits = 0x7F800000;
static_assert(kThreads == kQsgdStride, "a thread block plans the buckets that have one end");

struct Work {
  const float* arena;
  DeviceTiling tiling;
  QsgdCoding coding;
  QsgdRoom room;
  uint8_t* out;
  uint64_t* sizes;
  uint32_t* bad;
};

// The squares only where they count.
template <bool kTwoNorm>
struct Sums : QsgdSums {
  __device__ void Add(float v) {
    const uint32_t bits = BitsOf(v) & 0x7FFFFFFF;
    largest = bits > largest ? bits : largest;
    if constexpr (kTwoNorm) squares += double{v} * double{v};
  }
  __device__ void Join(const Sums& more) {
    largest = more.largest > largest ? more.largest : largest;
    if constexpr (kTwoNorm) squares += more.squares;
  }
  template <typename From>
  __device__ Sums Get(const From& from) const {
    Sums got{};
    got.largest = from(largest);
    if constexpr (kTwoNorm) got.squares = from(squares);
    return got;
  }
};

struct Source {
  const float* v;
  __device__ float Load(uint64_t i) const { return v[i]; }
  __device__ void Keep(uint64_t, float) const {}
};

template <bool kTwoNorm>
__device__ void MeasureTile(const Work& work) {
  const uint32_t p = work.tiling.tiles[blockIdx.x].part;
  const Part part = work.tiling.parts[p].part;
  const GroupedPart groups = work.coding.groups[p];
  const QsgdRule& rule = work.coding.rule;
  const auto finish = [&](uint64_t bucket, const Sums<kTwoNorm>& sums) {
    const QsgdBucket measured = QsgdMeasured(rule, FloatOf(sums.largest), sums.squares,
                                             LengthOfGroup(part.count, groups.size, bucket));
    if (sums.largest >= kInfinityBits) atomicAdd(work.bad, 1u);
    work.room.norms[groups.first_group + bucket] = measured.norm;
    if (rule.bits == 0) {
      work.room.widths[groups.first_group + bucket] = static_cast<uint8_t>(measured.width);
    } else {
      StoreFloat(measured.norm, work.out + work.coding.places[p].begin + bucket * sizeof(float));
    }
  };
  SumGroups(work.tiling, groups.size, static_cast<Sums<kTwoNorm>*>(work.room.partial),
            work.room.done, Source{work.arena + part.begin}, finish);
}

// The header of a part whose buckets differ in width, from byte `at` of `out` on. Returns where the
// code ends.
__device__ uint64_t PlanPart(const Work& work, uint32_t p, uint64_t at, uint64_t* row) {
  const Part part = work.tiling.parts[p].part;
  const GroupedPart groups = work.coding.groups[p];
  const uint64_t buckets = QsgdBuckets(part.count, groups.size);
  uint8_t* norms = work.out + at;
  uint8_t* widths = norms + buckets * sizeof(float);
  uint8_t* ends = widths + buckets;
  uint64_t bits = 0;
  for (uint64_t first = 0; first < buckets; first += kQsgdStride) {
    const uint64_t bucket = first + threadIdx.x, group = groups.first_group + bucket;
    uint64_t mine = 0;
    if (bucket < buckets) {
      const uint8_t width = *static_cast<volatile uint8_t*>(work.room.widths + group);
      mine = LengthOfGroup(part.count, groups.size, bucket) * width;
      widths[bucket] = width;
      StoreFloat(LoadFresh(work.room.norms + group), norms + bucket * sizeof(float));
    }
    uint64_t total;
    const uint64_t before = SumBefore<kThreads>(mine, row, &total);
    if (bucket < buckets) work.room.bits[group] = bits + before;
    bits += total;
    if (threadIdx.x < sizeof(uint64_t))
      ends[first / kQsgdStride * sizeof(uint64_t) + threadIdx.x] =
          static_cast<uint8_t>(bits >> 8 * threadIdx.x);
  }
  const uint64_t levels = at + QsgdHeaderSize(work.coding.rule, buckets);
  if (threadIdx.x == 0) work.room.levels[p] = levels;
  return levels + (bits + 7) / 8;
}

template <bool kTwoNorm>
__global__ void __launch_bounds__(kThreads) MeasureBuckets(Work work) {
  __shared__ uint64_t row[kWarps];
  MeasureTile<kTwoNorm>(work);
  if (work.coding.rule.bits > 0) return;
  const uint32_t c = work.tiling.parts[work.tiling.tiles[blockIdx.x].part].part.chunk;
  const TiledChunk chunk = work.tiling.chunks[c];
  if (!IsLastOf(work.room.chunk_done + c, chunk.tile_end - chunk.tile_begin)) return;
  uint64_t at = chunk.out;
  for (uint32_t p = chunk.part_begin; p < chunk.part_end; ++p) at = PlanPart(work, p, at, row);
  if (threadIdx.x == 0) work.sizes[c] = at - chunk.out;
}

// Numbers of a few bits, one after the other, to words that are zero where they go.
struct Putter {
  uint32_t* to;
  uint32_t used;  // bits of the first word that are before them
  uint64_t held = 0;

  __device__ void Put(uint32_t code, uint32_t width) {
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

// What a tile's levels are made of.
struct CodedTile {
  const Work& work;
  Part part;
  GroupsOfTile groups;
  uint64_t size;          // of a bucket
  const float* norms;     // of the part
  const uint8_t* widths;  // these two where they differ
  const uint64_t* bits;
  uint64_t row;      // at this bit of `out` the part's levels begin
  double s, last_s;  // of every bucket, but for the last
  uint64_t last;     // which it is
  NoiseKey key;

  __device__ explicit CodedTile(const Work& all) : CodedTile(all, all.tiling.tiles[blockIdx.x]) {}
  __device__ CodedTile(const Work& all, const Tile& tile)
      : work(all),
        part(all.tiling.parts[tile.part].part),
        groups(all.coding.groups[tile.part].size, tile.index) {
    const GroupedPart group = all.coding.groups[tile.part];
    const QsgdRule& rule = all.coding.rule;
    size = group.size;
    norms = all.room.norms + group.first_group;
    widths = all.room.widths + group.first_group;
    bits = all.room.bits + group.first_group;
    const uint64_t buckets = QsgdBuckets(part.count, size);
    row = 8 * (rule.bits == 0 ? all.room.levels[tile.part]
                              : all.coding.places[tile.part].begin + QsgdHeaderSize(rule, buckets));
    last = buckets - 1;
    last_s = QsgdLevelCount(rule, LengthOfGroup(part.count, size, last));
    s = last == 0 ? last_s : QsgdLevelCount(rule, size);
    key = all.coding.key;
    key.tensor = part.tensor;
  }
  __device__ uint32_t WidthOf(uint64_t bucket) const {
    const int same = work.coding.rule.bits;
    return same > 0 ? static_cast<uint32_t>(same) : widths[bucket];
  }
  // The bit of `out` at which the element's level begins, `at` of the part.
  __device__ uint64_t BitOf(uint64_t at, const GroupsOfTile::Place& place) const {
    const int same = work.coding.rule.bits;
    if (same > 0) return row + at * static_cast<uint32_t>(same);
    return row + bits[place.group] + place.inside * widths[place.group];
  }

  __device__ QsgdBucket BucketOf(uint64_t b) const { return {norms[b], 0, b == last ? last_s : s}; }
  __device__ uint32_t SignedCode(float v, uint32_t level, uint32_t width) const {
    const bool minus = v < 0 && level > 0 && !work.coding.rule.intervals;
    return minus ? level | 1u << (width - 1) : level;
  }

  // Of an element whose bucket has a norm above 0: what is certain, and slow.
  __device__ uint32_t ExactCode(uint64_t at) const {
    const float v = work.arena[part.begin + at];
    const uint64_t b = at / size, element = part.first + at;
    const uint32_t level =
        QsgdLevel(work.coding.rule.intervals, v, BucketOf(b), NoiseDraw(key, element, 0),
                  [&] { return NoiseDraw(key, element, 1); });
    return SignedCode(v, level, WidthOf(b));
  }

  // Elements [at, at + count) of the part, which are at `place`. What is certain of all of them
  // comes first, so that the rest is there but once.
  __device__ void CodeEight(uint64_t at, uint32_t count, const GroupsOfTile::Place& place,
                            Putter* to) const {
    const bool intervals = work.coding.rule.intervals;
    const Eight v = Load(work.arena + part.begin + at, count);
    const PhiloxWords draws = NoiseOfEight(key, part.first + at);
    bool any = false;  // not only zeros
    QsgdQuick quick;
    uint32_t codes[kEight] = {}, width = 0, unsure = 0;
    const auto enter = [&](uint64_t b, uint32_t) {
      const QsgdBucket bucket = BucketOf(b);
      any = bucket.norm > 0;
      quick = QuicklyOf(intervals, bucket);
      width = WidthOf(b);
    };
    groups.ForEight(place, count, enter, [&](uint32_t k) {
      if (k >= count) return;
      uint32_t level = 0;
      const float x = intervals ? v.x[k] : fabsf(v.x[k]);
      if (!QuickLevel(quick, x, DrawOf(draws, k), &level) && any) unsure |= 1u << k;
      codes[k] = SignedCode(v.x[k], level, width);
    });
    for (; unsure != 0; unsure &= unsure - 1) {
      const auto which = static_cast<uint32_t>(__ffs(static_cast<int>(unsure))) - 1;
      const uint32_t code = ExactCode(at + which);
#pragma unroll
      for (uint32_t k = 0; k < kEight; ++k) codes[k] = k == which ? code : codes[k];
    }
    groups.ForEight(
        place, count, [&](uint64_t b, uint32_t) { width = WidthOf(b); },
        [&](uint32_t k) {
          if (k < count) to->Put(codes[k], width);
        });
    to->Finish();
  }

  // Bits [begin, end) of `out`, which a warp has put together from the word of `begin` on; zeros
  // are left in their place.
  __device__ void CopyOut(uint32_t* stage, uint64_t begin, uint64_t end) const {
    const uint64_t first = begin / 32;
    const auto words = static_cast<uint32_t>((end + 31) / 32 - first);
    auto* to = reinterpret_cast<uint32_t*>(work.out) + first;
    for (uint32_t j = threadIdx.x % 32; j < words; j += 32) {
      const uint32_t word = stage[j];
      stage[j] = 0;
      const uint64_t bit = (first + j) * 32;
      if (bit >= begin && bit + 32 <= end) {
        to[j] = word;
      } else if (work.coding.rule.bits == 0) {
        atomicOr(to + j, word);  // others have bits of it
      } else {
        for (uint32_t b = 0; b < 4; ++b) {
          if (bit + 8 * b >= begin && bit + 8 * b < end)
            work.out[bit / 8 + b] = static_cast<uint8_t>(word >> 8 * b);
        }
      }
    }
  }
};

__device__ void CodeTile(const Work& work) {
  __shared__ uint32_t stages[kWarps][kStageWords];
  const CodedTile tile(work);
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint64_t begin = uint64_t{work.tiling.tiles[blockIdx.x].index} * kTile;
  uint32_t* stage = stages[warp];
  for (uint32_t j = lane; j < kStageWords; j += 32) stage[j] = 0;
  for (uint32_t step = warp * kStep; step < kTile; step += kWarps * kStep) {
    if (begin + step >= tile.part.count) break;
    const uint32_t first = step + lane * kEight;
    const uint64_t at = begin + first;
    const uint32_t count = at < tile.part.count ? EightOf(tile.part.count - at) : 0;
    const GroupsOfTile::Place place = tile.groups.At(first);
    const uint64_t from = count == 0 ? 0 : tile.BitOf(at, place);
    const uint64_t row_begin = __shfl_sync(kAllLanes, from, 0);  // all have zeroed `stage` then
    __syncwarp();
    uint64_t to = 0;
    if (count > 0) {
      const auto inside = static_cast<uint32_t>(from - row_begin / 32 * 32);
      Putter putter{stage + inside / 32, inside % 32};
      tile.CodeEight(at, count, place, &putter);
      to = row_begin / 32 * 32 + static_cast<uint64_t>(putter.to - stage) * 32 + putter.used;
    }
    const uint64_t rest = tile.part.count - (begin + step);
    const uint32_t last = (static_cast<uint32_t>(rest < kStep ? rest : kStep) - 1) / kEight;
    const uint64_t row_end = __shfl_sync(kAllLanes, to, last);
    __syncwarp();
    tile.CopyOut(stage, row_begin, row_end);
    __syncwarp();
  }
}

__global__ void __launch_bounds__(kThreads) CodeTiles(Work work) { CodeTile(work); }

template <bool kTwoNorm>
__global__ void __launch_bounds__(kThreads) MeasureAndCode(Work work) {
  MeasureTile<kTwoNorm>(work);
  __syncthreads();
  CodeTile(work);
}

}  // namespace

int QsgdOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                 const QsgdCoding& coding, const QsgdRoom& room, uint8_t* out, uint64_t out_bytes,
                 uint64_t* sizes, uint32_t* bad) {
  const Work work{arena, tiling, coding, room, out, sizes, bad};
  const bool two = coding.rule.two_norm, same_width = coding.rule.bits > 0;
  if (same_width && coding.bucket != 0 && kTile % coding.bucket == 0)
    return Launch(two ? MeasureAndCode<true> : MeasureAndCode<false>, tiling.tile_count, kThreads,
                  stream, work);
  if (!same_width) {
    const int cleared = cudaMemsetAsync(out, 0, out_bytes, stream);
    if (cleared != 0) return cleared;
  }
  const int measured = Launch(two ? MeasureBuckets<true> : MeasureBuckets<false>, tiling.tile_count,
                              kThreads, stream, work);
  if (measured != 0) return measured;
  return Launch(CodeTiles, tiling.tile_count, kThreads, stream, work);
}

}  // namespace tern::kernels
