// QSGD's codes to floats on a GPU:
//
//   FindBuckets  a thread a bucket, where they differ in width: where its levels begin
//   ReadTiles    a thread block a tile, a thread eight elements at a time
#include <cuda_runtime.h>

#include "kernels/codes/code_bytes.cuh"
#include "kernels/codes/qsgd.h"
#include "kernels/device/eight.cuh"
#include "kernels/device/groups.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 64;
constexpr uint64_t kNoBit = ~uint64_t{0};  // of a bucket that cannot be
// Buckets of so many elements are looked at once a tile, which has at most these.
constexpr uint64_t kLargeBucket = 64;
constexpr uint32_t kMostLarge = kTile / kLargeBucket + 1;

struct Work {
  DeviceTiling tiling;
  const uint8_t* codes;
  QsgdRule rule;
  const GroupedPart* groups;
  const CodePlace* places;
  uint64_t* bits;
  float* arena;
  uint32_t* bad;
};

// The code of one part, taken apart.
struct CodeOfPart {
  const Work& work;
  Part part;
  uint64_t size, buckets;
  uint64_t norms, widths, ends, levels;  // at which byte of all codes they begin
  uint64_t bits = 0;                     // of all levels
  uint64_t* begins;                      // of its buckets' levels
  bool good = false;

  __device__ CodeOfPart(const Work& all, uint32_t p)
      : work(all), part(all.tiling.parts[p].part), size(all.groups[p].size) {
    const CodePlace place = all.places[p];
    begins = all.bits + all.groups[p].first_group;
    buckets = QsgdBuckets(part.count, size);
    norms = place.begin;
    widths = norms + buckets * sizeof(float);
    ends = widths + buckets;
    const uint64_t header = QsgdHeaderSize(all.rule, buckets);
    levels = place.begin + header;
    if (place.size < header) return;
    const uint64_t most = QsgdMaxBits(all.rule, part.count, size);
    bits = all.rule.bits > 0 ? most : LoadEnd((buckets - 1) / kQsgdStride);
    if (bits > most || place.size != header + (bits + 7) / 8) return;
    good = bits % 8 == 0 || all.codes[place.begin + place.size - 1] >> bits % 8 == 0;
  }
  __device__ uint64_t LoadEnd(uint64_t i) const {
    const uint64_t at = ends + i * sizeof(uint64_t);
    return LoadWord(work.codes, at) | uint64_t{LoadWord(work.codes, at + 4)} << 32;
  }
  __device__ uint64_t LengthOf(uint64_t bucket) const {
    return LengthOfGroup(part.count, size, bucket);
  }
  __device__ float NormOf(uint64_t bucket) const {
    return LoadFloat(work.codes, norms + bucket * sizeof(float));
  }
  __device__ void Refuse() const { atomicAdd(work.bad, 1u); }

  // Where widths differ: the bit at which a bucket's levels begin, or none.
  __device__ uint64_t Find(uint64_t bucket) const {
    const uint64_t stride = bucket / kQsgdStride;
    uint64_t at = stride == 0 ? 0 : LoadEnd(stride - 1);
    if (at > bits) return kNoBit;
    for (uint64_t b = stride * kQsgdStride; b < bucket; ++b) at += size * work.codes[widths + b];
    const uint32_t width = work.codes[widths + bucket];
    const uint64_t length = LengthOf(bucket), end = at + length * width, said = LoadEnd(stride);
    const bool last = bucket % kQsgdStride == kQsgdStride - 1 || bucket + 1 == buckets;
    if (said > bits || (last ? end != said : end > said)) return kNoBit;
    return QsgdCanBe(work.rule, NormOf(bucket), static_cast<int>(width), length) ? at : kNoBit;
  }
};

__global__ void __launch_bounds__(kThreads) FindBuckets(Work work) {
  const Tile tile = work.tiling.tiles[blockIdx.x];
  const CodeOfPart code(work, tile.part);
  if (!code.good) return;  // the next says so
  const uint64_t begin = uint64_t{tile.index} * kTile;
  const uint64_t end = begin + kTile < code.part.count ? begin + kTile : code.part.count;
  const uint64_t last = (end + code.size - 1) / code.size;
  for (uint64_t b = (begin + code.size - 1) / code.size + threadIdx.x; b < last; b += kThreads) {
    code.begins[b] = code.Find(b);
    if (code.begins[b] == kNoBit) code.Refuse();
  }
}

// What is known of a bucket before its levels are read.
struct Header {
  double unit;
  uint64_t bit;  // of the part's levels, its first
  uint32_t width, last, minus;
};

// A bucket that cannot be is one of zeros without bits.
__device__ Header HeaderOf(const CodeOfPart& code, uint64_t bucket) {
  const QsgdRule& rule = code.work.rule;
  const float norm = code.NormOf(bucket);
  Header header{0, 0, static_cast<uint32_t>(rule.bits), 0, 0};
  if (rule.bits > 0) {
    header.bit = bucket * code.size * header.width;
    if (!QsgdCanBe(rule, norm, rule.bits, code.size)) {
      code.Refuse();
      return header;
    }
  } else {
    header.bit = code.begins[bucket];
    header.width = header.bit == kNoBit ? 0 : code.work.codes[code.widths + bucket];
  }
  if (!(norm > 0) || header.width == 0) return header;
  const double s = QsgdLevelCount(rule, code.LengthOf(bucket));
  header.unit = double{norm} / s;
  header.last = static_cast<uint32_t>(ceil(s));
  header.minus = 1u << (header.width - 1);
  return header;
}

// Takes numbers of a few bits from a row. Of words that hold none of their bits, none is read.
struct Taker {
  const uint32_t* from;
  uint32_t before, have = 0;  // bits of the next word that are before them; that are held
  uint64_t held = 0;

  __device__ Taker(const uint8_t* codes, uint64_t bit)
      : from(reinterpret_cast<const uint32_t*>(codes) + bit / 32),
        before(static_cast<uint32_t>(bit % 32)) {}
  __device__ uint32_t Take(uint32_t width) {
    while (have < width) {
      held |= uint64_t{*from++ >> before} << have;
      have += 32 - before;
      before = 0;
    }
    const auto value = static_cast<uint32_t>(held & ((uint64_t{1} << width) - 1));
    held >>= width;
    have -= width;
    return value;
  }
};

// Elements [at, at + count) of a part. Whether all are levels.
template <typename HeaderAt>
__device__ bool ReadEight(const CodeOfPart& code, const GroupsOfTile& groups,
                          const GroupsOfTile::Place& place, uint32_t count,
                          const HeaderAt& header_at, Eight* v) {
  const uint32_t intervals = code.work.rule.intervals ? 1 : 0;
  const int32_t most = (1 << code.work.rule.bits) - 1;  // of intervals
  Header header{};
  Taker taker(code.work.codes, 0);
  bool good = true;
  const auto enter = [&](uint64_t bucket, uint32_t k) {
    header = header_at(bucket);
    const uint64_t inside = k == 0 ? place.inside * header.width : 0;
    taker = Taker(code.work.codes, code.levels * 8 + header.bit + inside);
  };
  groups.ForEight(place, count, enter, [&](uint32_t k) {
    v->x[k] = 0;
    if (k >= count) return;
    const uint32_t number = taker.Take(header.width);
    if (!(header.unit > 0)) {
      good = good && number == 0;
    } else if (intervals != 0) {
      v->x[k] = QsgdValue(2 * static_cast<int32_t>(number) - most, header.unit);
    } else {
      v->x[k] = QsgdValue(QsgdSigned(number, header.minus, header.last, &good), header.unit);
    }
  });
  return good;
}

__global__ void __launch_bounds__(kThreads) ReadTiles(Work work) {
  __shared__ Header headers[kMostLarge];
  const Tile tile = work.tiling.tiles[blockIdx.x];
  const CodeOfPart code(work, tile.part);
  const GroupsOfTile groups(code.size, tile.index);
  const uint64_t begin = uint64_t{tile.index} * kTile;
  const uint64_t first_bucket = groups.At(0).group;
  const bool large = code.size >= kLargeBucket;
  if (large && code.good) {
    for (uint32_t i = threadIdx.x; i < kMostLarge; i += kThreads) {
      const uint64_t bucket = first_bucket + i;
      const bool here = bucket < code.buckets && bucket * code.size < begin + kTile;
      if (here) headers[i] = HeaderOf(code, bucket);
    }
  }
  __syncthreads();
  if (!code.good) {
    if (threadIdx.x == 0) code.Refuse();
    return;
  }
  const auto header_at = [&](uint64_t bucket) {
    return large ? headers[bucket - first_bucket] : HeaderOf(code, bucket);
  };
  for (uint32_t first = threadIdx.x * kEight; first < kTile; first += kThreads * kEight) {
    const uint64_t at = begin + first;
    if (at >= code.part.count) break;
    const uint32_t count = EightOf(code.part.count - at);
    Eight v;
    if (!ReadEight(code, groups, groups.At(first), count, header_at, &v)) code.Refuse();
    Store(v, work.arena + code.part.begin + at, count);
  }
}

}  // namespace

int ReadQsgdOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* codes,
                     const QsgdRule& rule, const GroupedPart* groups, const CodePlace* places,
                     uint64_t* bits, float* arena, uint32_t* bad) {
  const Work work{tiling, codes, rule, groups, places, bits, arena, bad};
  if (rule.bits == 0) {
    const int found = Launch(FindBuckets, tiling.tile_count, kThreads, stream, work);
    if (found != 0) return found;
  }
  return Launch(ReadTiles, tiling.tile_count, kThreads, stream, work);
}

}  // namespace tern::kernels
