// Encodes many tensors in the sparse format (sparse.h) on a GPU, in two launches:
//
//   MarkTiles   computes a mask of the elements to send. The last thread block of a chunk writes
//               the directories and computes where the body of each tile begins
//   WriteTiles  writes bodies, and sets sent elements to zero in the codec's memory
//
// One thread block per tile. A part is a run of elements of one tensor that has a code of its own;
// a tile is a range of at most 4096 elements of a part, which is also a block of the format; a
// chunk is neighbouring parts whose codes are sent together (kernels/device/tiling.h). The
// directory of a part has an entry per tile (EntryOf); the body of a tile is its positions and
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
constexpr uint32_t kMaskWords = kTile / 32;  // words of a tile's mask
static_assert(kTile == kSparseBlock && kMaskWords == 2 * kThreads);

// The directory entry of a block of `length` elements, k of them not zero (sparse_math.h): k, or
// `length` if the block is written in full, without positions.
__device__ uint32_t EntryOf(uint32_t k, uint32_t length) {
  return IsDenseBlock(k, length) ? length : k;
}

// Writes the directories of chunk c and computes where its bodies begin. Called by the chunk's last
// thread block. `row` is shared memory for SumBefore.
__device__ void LayOutChunk(const DeviceTiling& tiling, uint32_t c,
                            const SparseWorkspace& workspace, uint64_t* row, uint8_t* out,
                            uint64_t* sizes) {
  const TiledChunk chunk = tiling.chunks[c];
  uint64_t next_byte = chunk.code_begin;
  for (uint32_t p = chunk.part_begin; p < chunk.part_end; ++p) {
    const TiledPart part = tiling.parts[p];
    const uint32_t num_tiles = TilesOf(part.part.count);
    uint8_t* directory = out + next_byte;
    next_byte += uint64_t{num_tiles} * kSparseEntryBytes;
    for (uint32_t begin = 0; begin < num_tiles; begin += kThreads) {
      const uint32_t i = begin + threadIdx.x;
      uint64_t body_bytes = 0;
      if (i < num_tiles) {
        const uint32_t length = CountOf(part.part, i);
        const uint32_t entry = EntryOf(LoadFresh(workspace.num_sent + part.tile_begin + i), length);
        directory[i * kSparseEntryBytes] = static_cast<uint8_t>(entry);
        directory[i * kSparseEntryBytes + 1] = static_cast<uint8_t>(entry >> 8);
        body_bytes = SparseBodySize(entry, length);
      }
      uint64_t step_bytes;
      const uint64_t bytes_before = SumBefore<kThreads>(body_bytes, row, &step_bytes);
      if (i < num_tiles) workspace.bodies[part.tile_begin + i] = next_byte + bytes_before;
      next_byte += step_bytes;
    }
  }
  if (threadIdx.x == 0) sizes[c] = next_byte - chunk.code_begin;
}

// Writes the mask of a tile of `count` elements v: one bit per element, 1 if the element is sent.
// Each warp writes half of the mask. Returns the number of ones in the words that this thread
// writes.
__device__ uint32_t MarkElements(const float* v, uint32_t count, float threshold, uint32_t* mask) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t num_ones = 0;
  for (uint32_t first = warp * 32; first < kMaskWords; first += kWarps * 32) {
    uint32_t lane_word = 0;
#pragma unroll 8
    for (uint32_t j = 0; j < 32; ++j) {
      const uint32_t i = (first + j) * 32 + lane;
      const float x = i < count ? v[i] : 0;
      const uint32_t word = __ballot_sync(kAllLanes, fabsf(x) >= threshold && x != 0);
      if (lane == j) lane_word = word;
    }
    mask[first + lane] = lane_word;
    num_ones += static_cast<uint32_t>(__popc(lane_word));
  }
  return num_ones;
}

__global__ void __launch_bounds__(kThreads)
    MarkTiles(const float* arena, DeviceTiling tiling, const float* thresholds,
              SparseWorkspace workspace, uint8_t* out, uint64_t* sizes) {
  __shared__ uint32_t counts[kWarps];
  __shared__ uint64_t row[kWarps];
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const uint32_t num_ones =
      MarkElements(arena + part.begin + uint64_t{tile.index} * kTile, CountOf(part, tile.index),
                   thresholds[tile.part], workspace.masks + uint64_t{blockIdx.x} * kMaskWords);
  uint32_t num_sent;
  SumBefore<kThreads>(num_ones, counts, &num_sent);
  if (threadIdx.x == 0) workspace.num_sent[blockIdx.x] = num_sent;
  const TiledChunk chunk = tiling.chunks[part.chunk];
  if (IsLastBlockOf(workspace.num_finished + part.chunk, chunk.tile_end - chunk.tile_begin))
    LayOutChunk(tiling, part.chunk, workspace, row, out, sizes);
}

// Writes `value` from bit `bit` of the row on. REQUIRES that the bits written to are zero, and
// value < 2^16.
__device__ void PutBits(uint32_t* row, uint32_t bit, uint32_t value) {
  atomicOr(row + bit / 32, value << bit % 32);
  if (bit % 32 > 16) atomicOr(row + bit / 32 + 1, value >> (32 - bit % 32));
}

// Writes the body of one tile. The pointers except `body` point at the tile's first element.
struct SparseTile {
  const float* v;
  const uint32_t* mask;
  uint8_t* body;       // where the body is written
  float* accumulated;  // the arrays of the codec's memory; each may be null
  float* momentum;

  __device__ void ClearMemory(uint32_t position) const {
    if (accumulated != nullptr) accumulated[position] = 0;
    if (momentum != nullptr) momentum[position] = 0;
  }
  // Writes a float for each element, without positions: 0 for an element that is not sent. Calls
  // ClearMemory for the sent elements.
  __device__ void WriteDense(uint32_t length) const {
    for (uint32_t i = threadIdx.x; i < length; i += kThreads) {
      const bool is_sent = (mask[i / 32] >> i % 32 & 1) != 0;
      StoreFloat(is_sent ? v[i] : 0, body + sizeof(float) * i);
      if (is_sent) ClearMemory(i);
    }
  }
  // Writes the elements of word w of the mask: their positions to the shared memory `row`, their
  // values to the body. Calls ClearMemory for them. The first of these elements is number i of the
  // k that are sent.
  __device__ void WriteWord(uint32_t w, uint32_t i, uint32_t k, const SparseForm& form,
                            uint32_t* row) const {
    const uint32_t high_bits_at = k * form.low_bits, low_mask = (1u << form.low_bits) - 1;
    if (form.is_bitmap) row[w] = mask[w];
    for (uint32_t word = mask[w]; word != 0; word &= word - 1, ++i) {
      const uint32_t position = w * 32 + static_cast<uint32_t>(__ffs(static_cast<int>(word))) - 1;
      if (!form.is_bitmap) {
        PutBits(row, i * form.low_bits, position & low_mask);
        PutBits(row, high_bits_at + (position >> form.low_bits) + i, 1);
      }
      StoreFloat(v[position], body + form.bytes + sizeof(float) * i);
      ClearMemory(position);
    }
  }
};

__global__ void __launch_bounds__(kThreads)
    WriteTiles(const float* arena, DeviceTiling tiling, SparseMemory memory,
               SparseWorkspace workspace, uint8_t* out) {
  __shared__ uint32_t row[kMaskWords + 1];
  __shared__ uint32_t counts[kWarps];
  const Tile block_tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[block_tile.part].part;
  const uint64_t begin = part.begin + uint64_t{block_tile.index} * kTile;
  const uint32_t length = CountOf(part, block_tile.index), k = workspace.num_sent[blockIdx.x];
  const SparseTile tile{arena + begin, workspace.masks + uint64_t{blockIdx.x} * kMaskWords,
                        out + workspace.bodies[blockIdx.x],
                        memory.accumulated == nullptr ? nullptr : memory.accumulated + begin,
                        memory.momentum == nullptr ? nullptr : memory.momentum + begin};
  for (uint32_t w = threadIdx.x; w <= kMaskWords; w += kThreads) row[w] = 0;
  __syncthreads();
  if (k == 0) return;
  if (IsDenseBlock(k, length)) return tile.WriteDense(length);
  const SparseForm form = SparseFormOf(k, length);
  const uint32_t w = 2 * threadIdx.x;
  const auto num_first = static_cast<uint32_t>(__popc(tile.mask[w]));
  const auto num_second = static_cast<uint32_t>(__popc(tile.mask[w + 1]));
  uint32_t total;
  const uint32_t num_before = SumBefore<kThreads>(num_first + num_second, counts, &total);
  tile.WriteWord(w, num_before, k, form, row);
  tile.WriteWord(w + 1, num_before + num_first, k, form, row);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < form.bytes; i += kThreads)
    tile.body[i] = static_cast<uint8_t>(row[i / 4] >> 8 * (i % 4));
}

}  // namespace

int SparseOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                   const float* thresholds, const SparseMemory& memory,
                   const SparseWorkspace& workspace, uint8_t* out, uint64_t* sizes) {
  const int error = Launch(MarkTiles, tiling.tile_count, kThreads, stream, arena, tiling,
                           thresholds, workspace, out, sizes);
  if (error != 0) return error;
  return Launch(WriteTiles, tiling.tile_count, kThreads, stream, arena, tiling, memory, workspace,
                out);
}

}  // namespace tern::kernels
