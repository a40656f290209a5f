// Decodes the codes of QSGD (qsgd.h) on a GPU. The kernels:
//
//   FindBuckets  if buckets differ in width (bits per element), computes where the levels of each
//                bucket begin; one thread per bucket
//   ReadTiles    decodes; one thread block per tile, eight elements per thread at a time
//
// A part is a run of elements of one tensor that has a code of its own; a tile is a range of at
// most 4096 elements of a part (kernels/device/tiling.h).
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
constexpr uint64_t kNoBit = ~uint64_t{0};  // marks an invalid bucket in DecodeArgs::bit_offsets
// The headers of buckets of at least this many elements are decoded once per tile, into shared
// memory. At most kMaxLargeBuckets such buckets overlap a tile.
constexpr uint64_t kLargeBucket = 64;
constexpr uint32_t kMaxLargeBuckets = kTile / kLargeBucket + 1;

struct DecodeArgs {
  DeviceTiling tiling;
  const uint8_t* codes;
  QsgdRule rule;
  const GroupedPart* grouped_parts;
  const CodeRange* ranges;
  uint64_t* bit_offsets;
  float* arena;
  uint32_t* invalid_count;
};

// Finds the sections of the code of one part.
struct CodeOfPart {
  const DecodeArgs& args;
  Part part;
  uint64_t bucket_size, num_buckets;     // elements of a bucket; number of buckets
  uint64_t norms, widths, ends, levels;  // byte offsets in `codes`
  uint64_t bits = 0;                     // bits of all levels together
  uint64_t* level_begins;                // per bucket: the bit at which its levels begin
  bool is_valid = false;                 // whether size and unused bits of the code are valid

  __device__ CodeOfPart(const DecodeArgs& decode_args, uint32_t p)
      : args(decode_args),
        part(decode_args.tiling.parts[p].part),
        bucket_size(decode_args.grouped_parts[p].size) {
    const CodeRange range = decode_args.ranges[p];
    level_begins = decode_args.bit_offsets + decode_args.grouped_parts[p].first_group;
    num_buckets = QsgdBuckets(part.count, bucket_size);
    norms = range.begin;
    widths = norms + num_buckets * sizeof(float);
    ends = widths + num_buckets;
    const uint64_t header = QsgdHeaderSize(decode_args.rule, num_buckets);
    levels = range.begin + header;
    if (range.size < header) return;
    const uint64_t max_bits = QsgdMaxBits(decode_args.rule, part.count, bucket_size);
    bits = decode_args.rule.bits > 0 ? max_bits : LoadEnd((num_buckets - 1) / kQsgdStride);
    if (bits > max_bits || range.size != header + (bits + 7) / 8) return;
    is_valid = bits % 8 == 0 || decode_args.codes[range.begin + range.size - 1] >> bits % 8 == 0;
  }
  // Loads number i of the section `ends`: the bit at which the levels of bucket 64 i + 63 (or of
  // the last bucket, if that is lower) end.
  __device__ uint64_t LoadEnd(uint64_t i) const {
    const uint64_t byte = ends + i * sizeof(uint64_t);
    return LoadWord(args.codes, byte) | uint64_t{LoadWord(args.codes, byte + 4)} << 32;
  }
  __device__ uint64_t LengthOf(uint64_t bucket) const {
    return LengthOfGroup(part.count, bucket_size, bucket);
  }
  __device__ float NormOf(uint64_t bucket) const {
    return LoadFloat(args.codes, norms + bucket * sizeof(float));
  }
  __device__ void ReportInvalid() const { atomicAdd(args.invalid_count, 1u); }

  // If widths differ: returns the bit at which the levels of a bucket begin among those of the
  // part; kNoBit if the bucket is invalid.
  __device__ uint64_t FindLevelsBegin(uint64_t bucket) const {
    const uint64_t group = bucket / kQsgdStride;
    uint64_t bit = group == 0 ? 0 : LoadEnd(group - 1);
    if (bit > bits) return kNoBit;
    for (uint64_t b = group * kQsgdStride; b < bucket; ++b)
      bit += bucket_size * args.codes[widths + b];
    const uint32_t width = args.codes[widths + bucket];
    const uint64_t length = LengthOf(bucket), end = bit + length * width,
                   stored_end = LoadEnd(group);
    const bool has_stored_end =
        bucket % kQsgdStride == kQsgdStride - 1 || bucket + 1 == num_buckets;
    if (stored_end > bits || (has_stored_end ? end != stored_end : end > stored_end)) return kNoBit;
    return IsValidQsgdBucket(args.rule, NormOf(bucket), static_cast<int>(width), length) ? bit
                                                                                         : kNoBit;
  }
};

__global__ void __launch_bounds__(kThreads) FindBuckets(DecodeArgs args) {
  const Tile tile = args.tiling.tiles[blockIdx.x];
  const CodeOfPart code(args, tile.part);
  if (!code.is_valid) return;  // ReadTiles reports the invalid code.
  const uint64_t begin = uint64_t{tile.index} * kTile;
  const uint64_t end = begin + kTile < code.part.count ? begin + kTile : code.part.count;
  const uint64_t end_bucket = (end + code.bucket_size - 1) / code.bucket_size;
  for (uint64_t b = (begin + code.bucket_size - 1) / code.bucket_size + threadIdx.x; b < end_bucket;
       b += kThreads) {
    code.level_begins[b] = code.FindLevelsBegin(b);
    if (code.level_begins[b] == kNoBit) code.ReportInvalid();
  }
}

// The decoded header of a bucket.
struct BucketHeader {
  double unit;                          // norm / number of levels; 0: all elements are 0
  uint64_t bit;                         // the bit at which its levels begin among those of the part
  uint32_t width, max_level, sign_bit;  // bits per level, the largest level, and the sign bit
};

// Decodes the header of a bucket. If the header is invalid, returns one whose elements are 0.
// Reports the error only if all widths are the same; otherwise FindBuckets has reported it.
__device__ BucketHeader ReadHeader(const CodeOfPart& code, uint64_t bucket) {
  const QsgdRule& rule = code.args.rule;
  const float norm = code.NormOf(bucket);
  BucketHeader header{0, 0, static_cast<uint32_t>(rule.bits), 0, 0};
  if (rule.bits > 0) {
    header.bit = bucket * code.bucket_size * header.width;
    if (!IsValidQsgdBucket(rule, norm, rule.bits, code.bucket_size)) {
      code.ReportInvalid();
      return header;
    }
  } else {
    header.bit = code.level_begins[bucket];
    header.width = header.bit == kNoBit ? 0 : code.args.codes[code.widths + bucket];
  }
  if (!(norm > 0) || header.width == 0) return header;
  const double s = QsgdLevelCount(rule, code.LengthOf(bucket));
  header.unit = double{norm} / s;
  header.max_level = static_cast<uint32_t>(ceil(s));
  header.sign_bit = 1u << (header.width - 1);
  return header;
}

// Reads numbers of a few bits each, one after the other, from bit `bit` of `codes` on. Reads only
// words that contain some of the bits.
struct BitReader {
  const uint32_t* next_word;     // the next word to load
  uint32_t skipped, loaded = 0;  // bits of *next_word before the first number; bits in `pending`
  uint64_t pending = 0;          // bits that are loaded, but not returned yet

  __device__ BitReader(const uint8_t* codes, uint64_t bit)
      : next_word(reinterpret_cast<const uint32_t*>(codes) + bit / 32),
        skipped(static_cast<uint32_t>(bit % 32)) {}
  __device__ uint32_t Read(uint32_t width) {
    while (loaded < width) {
      pending |= uint64_t{*next_word++ >> skipped} << loaded;
      loaded += 32 - skipped;
      skipped = 0;
    }
    const auto value = static_cast<uint32_t>(pending & ((uint64_t{1} << width) - 1));
    pending >>= width;
    loaded -= width;
    return value;
  }
};

// Decodes `count` elements of a part, of which the first is at `position` of its bucket.
// header_at(bucket) returns the header of a bucket. Returns false if a level is invalid.
template <typename HeaderAt>
__device__ bool ReadEight(const CodeOfPart& code, const GroupsOfTile& groups,
                          const GroupsOfTile::Position& position, uint32_t count,
                          const HeaderAt& header_at, EightFloats* v) {
  const uint32_t uses_intervals = code.args.rule.uses_intervals ? 1 : 0;
  const int32_t last_interval = (1 << code.args.rule.bits) - 1;  // the largest interval number
  BucketHeader header{};
  BitReader reader(code.args.codes, 0);
  bool is_valid = true;
  const auto enter_bucket = [&](uint64_t bucket, uint32_t k) {
    header = header_at(bucket);
    const uint64_t first_bit = k == 0 ? position.offset * header.width : 0;
    reader = BitReader(code.args.codes, code.levels * 8 + header.bit + first_bit);
  };
  groups.VisitEight(position, count, enter_bucket, [&](uint32_t k) {
    v->x[k] = 0;
    if (k >= count) return;
    const uint32_t number = reader.Read(header.width);
    if (!(header.unit > 0)) {
      is_valid = is_valid && number == 0;
    } else if (uses_intervals != 0) {
      v->x[k] = QsgdValue(2 * static_cast<int32_t>(number) - last_interval, header.unit);
    } else {
      v->x[k] = QsgdValue(SignedQsgdLevel(number, header.sign_bit, header.max_level, &is_valid),
                          header.unit);
    }
  });
  return is_valid;
}

__global__ void __launch_bounds__(kThreads) ReadTiles(DecodeArgs args) {
  __shared__ BucketHeader headers[kMaxLargeBuckets];
  const Tile tile = args.tiling.tiles[blockIdx.x];
  const CodeOfPart code(args, tile.part);
  const GroupsOfTile groups(code.bucket_size, tile.index);
  const uint64_t begin = uint64_t{tile.index} * kTile;
  const uint64_t first_bucket = groups.PositionOf(0).group;
  const bool has_large_buckets = code.bucket_size >= kLargeBucket;
  if (has_large_buckets && code.is_valid) {
    for (uint32_t i = threadIdx.x; i < kMaxLargeBuckets; i += kThreads) {
      const uint64_t bucket = first_bucket + i;
      const bool is_in_tile =
          bucket < code.num_buckets && bucket * code.bucket_size < begin + kTile;
      if (is_in_tile) headers[i] = ReadHeader(code, bucket);
    }
  }
  __syncthreads();
  if (!code.is_valid) {
    if (threadIdx.x == 0) code.ReportInvalid();
    return;
  }
  const auto header_at = [&](uint64_t bucket) {
    return has_large_buckets ? headers[bucket - first_bucket] : ReadHeader(code, bucket);
  };
  for (uint32_t first = threadIdx.x * kEight; first < kTile; first += kThreads * kEight) {
    const uint64_t index = begin + first;
    if (index >= code.part.count) break;
    const uint32_t count = AtMostEight(code.part.count - index);
    EightFloats v;
    if (!ReadEight(code, groups, groups.PositionOf(first), count, header_at, &v))
      code.ReportInvalid();
    Store(v, args.arena + code.part.begin + index, count);
  }
}

}  // namespace

int ReadQsgdOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* codes,
                     const QsgdRule& rule, const GroupedPart* grouped_parts,
                     const CodeRange* ranges, uint64_t* bit_offsets, float* arena,
                     uint32_t* invalid_count) {
  const DecodeArgs args{tiling, codes,       rule,  grouped_parts,
                        ranges, bit_offsets, arena, invalid_count};
  if (rule.bits == 0) {
    const int error = Launch(FindBuckets, tiling.tile_count, kThreads, stream, args);
    if (error != 0) return error;
  }
  return Launch(ReadTiles, tiling.tile_count, kThreads, stream, args);
}

}  // namespace tern::kernels
