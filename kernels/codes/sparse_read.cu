// Decodes sparse codes (sparse.h) on a GPU, in two launches:
//
//   FindTiles  computes where the body of each tile begins; one thread block per part
//   ReadTiles  decodes; one thread block per tile
//
// A part is a run of elements of one tensor that has a code of its own; a tile is a range of at
// most 4096 elements of a part (kernels/device/tiling.h). The body of a tile is its positions and
// values.
#include <cuda_runtime.h>

#include "kernels/codes/code_bytes.cuh"
#include "kernels/codes/sparse.h"
#include "kernels/codes/sparse_math.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 64;
constexpr uint32_t kWarps = kThreads / 32;
constexpr uint32_t kMaskWords = kTile / 32;
// If the code of a part is invalid, `bodies` has this value for the part's first tile.
constexpr uint64_t kNoBody = ~uint64_t{0};

struct DecodeArgs {
  DeviceTiling tiling;
  const uint8_t* codes;
  const CodeRange* ranges;
  uint64_t* bodies;
  float* arena;
  uint32_t* invalid_count;
};

// The directory entry of a tile of a part.
__device__ uint32_t EntryOf(const DecodeArgs& args, uint32_t part, uint32_t tile) {
  const uint8_t* entry = args.codes + args.ranges[part].begin + uint64_t{tile} * kSparseEntryBytes;
  return entry[0] | uint32_t{entry[1]} << 8;
}

__global__ void __launch_bounds__(kThreads) FindTiles(DecodeArgs args) {
  __shared__ uint64_t row[kWarps];
  __syncwarp();
  const Tile tile = args.tiling.tiles[blockIdx.x];
  if (tile.index != 0) return;
  const TiledPart part = args.tiling.parts[tile.part];
  const CodeRange range = args.ranges[tile.part];
  const uint32_t num_tiles = TilesOf(part.part.count);
  const uint64_t directory_bytes = uint64_t{num_tiles} * kSparseEntryBytes;
  // Stands for the size of a tile with an invalid entry; no valid code is so large.
  constexpr uint64_t kInvalidSize = uint64_t{1} << 40;
  uint64_t next_byte = directory_bytes;
  for (uint32_t begin = 0; begin < num_tiles && directory_bytes <= range.size; begin += kThreads) {
    const uint32_t i = begin + threadIdx.x;
    uint64_t body_bytes = 0;
    if (i < num_tiles) {
      const uint32_t entry = EntryOf(args, tile.part, i), length = CountOf(part.part, i);
      body_bytes = entry <= length ? SparseBodySize(entry, length) : kInvalidSize;
    }
    uint64_t step_bytes;
    const uint64_t bytes_before = SumBefore<kThreads>(body_bytes, row, &step_bytes);
    if (i < num_tiles) args.bodies[part.tile_begin + i] = range.begin + next_byte + bytes_before;
    next_byte += step_bytes;
  }
  __syncthreads();
  if (threadIdx.x == 0 && next_byte != range.size) {
    args.bodies[part.tile_begin] = kNoBody;
    atomicAdd(args.invalid_count, 1u);
  }
}

__device__ bool IsFinite(float x) { return fabsf(x) < INFINITY; }

// Shared memory of the threads that decode a tile.
struct SharedArrays {
  uint32_t row[kMaskWords + 1];  // the encoded positions of the tile
  uint32_t counts[kWarps];
  uint16_t positions[kTile];
  uint32_t has_invalid;  // 1 if a thread found an invalid position or value
};

// Decodes the body of one tile.
struct SparseTile {
  const uint8_t* codes;
  uint64_t body;       // byte offset of the body in `codes`
  uint32_t k, length;  // the directory entry; the number of elements of the tile
  float* x;            // where the elements are written

  // Decodes a body that has all elements as floats. Returns false if the body is invalid.
  __device__ bool ReadDense(uint32_t* counts) const {
    uint32_t num_sent = 0, has_invalid = 0;
    for (uint32_t i = threadIdx.x; i < length; i += kThreads) {
      x[i] = LoadFloat(codes, body + sizeof(float) * i);
      num_sent += x[i] != 0 ? 1 : 0;
      has_invalid |= IsFinite(x[i]) && BitsOf(x[i]) != 0x80000000 ? 0 : 1;
    }
    uint32_t total;
    SumBefore<kThreads>(num_sent | has_invalid << 16, counts, &total);
    return total >> 16 == 0 && IsDenseBlock(total, length);
  }

  // Copies the coded positions to shared memory.
  __device__ void LoadPositionBits(const SparseForm& form, uint32_t* row) const {
    for (uint32_t w = threadIdx.x; w <= kMaskWords; w += kThreads) {
      uint32_t word = 0;
      for (uint32_t i = 4 * w; i < 4 * w + 4 && i < form.bytes; ++i)
        word |= uint32_t{codes[body + i]} << 8 * (i % 4);
      row[w] = word;
    }
  }
  // Decodes the positions whose one bits are in word w of shared->row; `word` has these bits. The
  // first position is written to shared->positions[i]. Returns false if a position is invalid.
  __device__ bool ReadWord(uint32_t w, uint32_t word, uint32_t i, const SparseForm& form,
                           SharedArrays* shared) const {
    const uint32_t high_bits_at = form.is_bitmap ? 0 : k * form.low_bits;
    const uint32_t low_mask = (1u << form.low_bits) - 1;
    bool is_valid = true;
    for (; word != 0 && i < k; word &= word - 1, ++i) {
      uint32_t position =
          w * 32 + static_cast<uint32_t>(__ffs(static_cast<int>(word))) - 1 - high_bits_at;
      if (!form.is_bitmap) {
        const uint32_t first_bit = i * form.low_bits;
        const uint64_t two_words =
            shared->row[first_bit / 32] | uint64_t{shared->row[first_bit / 32 + 1]} << 32;
        position = (position - i) << form.low_bits |
                   (static_cast<uint32_t>(two_words >> first_bit % 32) & low_mask);
      }
      is_valid = is_valid && position < length;
      shared->positions[i] = static_cast<uint16_t>(position);
    }
    return is_valid;
  }
  // Returns `word`, which is word w of the row, without the bits of the row below high_bits_at.
  __device__ static uint32_t ClearBitsBelow(uint32_t high_bits_at, uint32_t w, uint32_t word) {
    if (w * 32 >= high_bits_at) return word;
    return high_bits_at - w * 32 >= 32 ? 0 : word >> high_bits_at % 32 << high_bits_at % 32;
  }
  // Decodes the k positions to shared memory. Returns false if this thread found an invalid
  // position, or if the number of positions is not k.
  __device__ bool ReadPositions(const SparseForm& form, SharedArrays* shared) const {
    const uint32_t high_bits_at = form.is_bitmap ? 0 : k * form.low_bits, w = 2 * threadIdx.x;
    const uint32_t first_ones = ClearBitsBelow(high_bits_at, w, shared->row[w]);
    const uint32_t second_ones = ClearBitsBelow(high_bits_at, w + 1, shared->row[w + 1]);
    const auto num_first = static_cast<uint32_t>(__popc(first_ones));
    uint32_t total;
    const uint32_t num_before = SumBefore<kThreads>(
        num_first + static_cast<uint32_t>(__popc(second_ones)), shared->counts, &total);
    // If an unused bit is one, it gives a position of at least `length`, which ReadWord refuses.
    bool is_valid = total == k;
    is_valid = ReadWord(w, first_ones, num_before, form, shared) && is_valid;
    return ReadWord(w + 1, second_ones, num_before + num_first, form, shared) && is_valid;
  }
  // Decodes a body with positions. Returns false if the body is invalid.
  __device__ bool ReadSparse(SharedArrays* shared) const {
    const SparseForm form = SparseFormOf(k, length);
    LoadPositionBits(form, shared->row);
    if (threadIdx.x == 0) shared->has_invalid = IsDenseBlock(k, length) ? 1 : 0;
    for (uint32_t i = threadIdx.x; i < length; i += kThreads) x[i] = 0;
    __syncthreads();
    bool is_valid = ReadPositions(form, shared);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < k && is_valid; i += kThreads) {
      const float value = LoadFloat(codes, body + form.bytes + sizeof(float) * i);
      is_valid = IsFinite(value) && value != 0 &&
                 (i == 0 || shared->positions[i - 1] < shared->positions[i]);
    }
    if (!is_valid) atomicOr(&shared->has_invalid, 1u);
    __syncthreads();
    if (shared->has_invalid != 0) return false;
    for (uint32_t i = threadIdx.x; i < k; i += kThreads)
      x[shared->positions[i]] = LoadFloat(codes, body + form.bytes + sizeof(float) * i);
    return true;
  }
};

__global__ void __launch_bounds__(kThreads) ReadTiles(DecodeArgs args) {
  __shared__ SharedArrays shared;
  __syncwarp();
  const Tile block_tile = args.tiling.tiles[blockIdx.x];
  const TiledPart part = args.tiling.parts[block_tile.part];
  if (args.bodies[part.tile_begin] == kNoBody) return;
  const SparseTile tile{args.codes, args.bodies[blockIdx.x],
                        EntryOf(args, block_tile.part, block_tile.index),
                        CountOf(part.part, block_tile.index),
                        args.arena + part.part.begin + uint64_t{block_tile.index} * kTile};
  bool is_valid = true;
  if (tile.k == 0) {
    for (uint32_t i = threadIdx.x; i < tile.length; i += kThreads) tile.x[i] = 0;
  } else {
    is_valid = tile.k == tile.length ? tile.ReadDense(shared.counts) : tile.ReadSparse(&shared);
  }
  if (threadIdx.x == 0 && !is_valid) atomicAdd(args.invalid_count, 1u);
}

}  // namespace

int ReadSparseOnDevice(DeviceStream stream, const DeviceTiling& tiling, const uint8_t* codes,
                       const CodeRange* ranges, uint64_t* bodies, float* arena,
                       uint32_t* invalid_count) {
  const DecodeArgs args{tiling, codes, ranges, bodies, arena, invalid_count};
  const int error = Launch(FindTiles, tiling.tile_count, kThreads, stream, args);
  if (error != 0) return error;
  return Launch(ReadTiles, tiling.tile_count, kThreads, stream, args);
}

}  // namespace tern::kernels
