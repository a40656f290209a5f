// Encodes many tensors with ternary codes (ternary.h) on a GPU, in two launches:
//
//   CodeTiles   writes the mask and the packed signs of each tile to the workspace. The last thread
//               block of a chunk computes where each part's mask and each tile's signs begin
//   WriteTiles  copies masks and signs from the workspace to the code of the chunk
//
// One thread block per tile. A part is a run of elements of one tensor that has a code of its own;
// a tile is a range of at most 4096 elements of a part; a chunk is neighbouring parts whose codes
// are sent together (kernels/device/tiling.h). An element "fires" if its code is not 0.
#include <cuda_runtime.h>

#include "kernels/codes/ternary.h"
#include "kernels/codes/ternary_math.h"
#include "kernels/device/eight.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / 32;
constexpr uint32_t kTileMaskBytes = kTile / 8;  // bytes of a tile's mask

__device__ uint64_t BytesForBits(uint64_t bits) { return (bits + 7) / 8; }

// A thread encodes four runs of eight elements, one in each of four passes over the tile. A run
// has one byte of the mask: a bit per element, 1 if its code is not 0.
constexpr uint32_t kPasses = kTileMaskBytes / kThreads;
static_assert(kPasses == 4, "a thread's codes are a word");

// The elements of a tile.
struct Elements {
  const float* values;    // the tile's first element, in the arena
  uint32_t count;         // elements of the tile
  uint64_t tensor_begin;  // index of the tile's first element in its tensor
  // The index in the tile of the first element that this thread encodes in a pass.
  __device__ uint32_t FirstOfRun(uint32_t pass) const {
    return (pass * kThreads + threadIdx.x) * kEight;
  }
  // How many elements the run that begins at FirstOfRun(pass) has, at most eight.
  __device__ uint32_t CountOfRun(uint32_t pass) const {
    const uint32_t first = FirstOfRun(pass);
    return first < count ? AtMostEight(count - first) : 0;
  }
};

// Decides, with the exact and slow function Fires, whether some elements fire: the few whose bits
// in `unsure` are 1. In the result, the bits of those that fire are 1, and all other bits are 0.
__device__ uint32_t DecideExactly(const Elements& elements, uint32_t unsure,
                                  const TernaryScale& scale, const NoiseKey& key) {
  uint32_t fires = 0;
  while (unsure != 0) {
    const auto bit = static_cast<uint32_t>(__ffs(static_cast<int>(unsure))) - 1;
    unsure &= unsure - 1;
    const uint32_t i = elements.FirstOfRun(bit / kEight) + bit % kEight;
    if (i < elements.count &&
        Fires(elements.values[i], scale.scaler, scale.clip, key, elements.tensor_begin + i))
      fires |= 1u << bit;
  }
  return fires;
}

// The codes of a thread's four runs. Bit k of byte `pass` belongs to element k of the run that the
// thread encodes in that pass.
struct Codes {
  uint32_t fires, negative;
};

// Encodes the thread's four runs. Loads two runs at a time, because loading all four takes so many
// registers that fewer thread blocks can be resident.
__device__ Codes EncodeRuns(const Elements& elements, const TernaryScale& scale,
                            const NoiseKey& key) {
  constexpr uint32_t kRunsAtOnce = 2;
  const QuickScale scale_constants = QuickScaleOf(scale.scaler, scale.clip);
  QuickCodes quick;
#pragma unroll 1
  for (uint32_t pass = 0; pass < kPasses; pass += kRunsAtOnce) {
    EightFloats g[kRunsAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kRunsAtOnce; ++i)
      g[i] = Load(elements.values + elements.FirstOfRun(pass + i), elements.CountOfRun(pass + i));
#pragma unroll
    for (uint32_t i = 0; i < kRunsAtOnce; ++i) {
      const uint32_t bits = 8 * (pass + i);
      const PhiloxWords draws =
          NoiseOfEight(key, elements.tensor_begin + elements.FirstOfRun(pass + i));
      const QuickCodes codes = DecideQuickly(g[i].x, draws, scale_constants);
      quick.not_firing |= codes.not_firing << bits;
      quick.negative |= codes.negative << bits;
      quick.unsure |= codes.unsure << bits;
    }
  }
  const uint32_t exact_fires = DecideExactly(elements, quick.unsure, scale, key);
  return {(~quick.not_firing & ~quick.unsure) | exact_fires, quick.negative};
}

// The numbers of elements that fire in each pass are kept in one 64-bit word, 16 bits each. Returns
// the first bit of the number of a pass.
__device__ uint32_t CountShift(uint32_t pass) { return pass % 2 * 32 + pass / 2 * 16; }

// Counts the elements that fire in each pass.
__device__ uint64_t CountsOfPasses(uint32_t fires) {
  const uint32_t ones = OnesOfBytes(fires);
  return uint64_t{ones >> 8 & 0x00FF00FF} << 32 | (ones & 0x00FF00FF);
}

// Writes the signs of this thread's codes to the tile's packed signs, in shared memory. Returns the
// number of signs of the tile. REQUIRES that each thread has set its word of `signs` to zero.
__device__ uint32_t GatherSigns(const Codes& codes, uint32_t* signs) {
  __shared__ uint64_t row[kWarps];
  const uint64_t thread_counts = CountsOfPasses(codes.fires);
  const uint32_t packed_signs = CompressBytes(codes.negative, codes.fires);
  uint64_t totals;
  // When SumBefore returns, all threads have set `signs` to zero.
  const uint64_t counts_before = SumBefore<kThreads>(thread_counts, row, &totals);
  uint32_t num_signs = 0;
#pragma unroll
  for (uint32_t pass = 0; pass < kPasses; ++pass) {
    const uint32_t shift = CountShift(pass);
    const uint32_t first_bit = num_signs + static_cast<uint32_t>(counts_before >> shift & 0xFFFF);
    const uint32_t run_signs = packed_signs >> 8 * pass & 0xFF;
    if (run_signs != 0) {
      const uint64_t shifted_signs = uint64_t{run_signs} << first_bit % 32;
      atomicOr(signs + first_bit / 32, static_cast<uint32_t>(shifted_signs));
      const auto next_signs = static_cast<uint32_t>(shifted_signs >> 32);
      if (next_signs != 0) atomicOr(signs + first_bit / 32 + 1, next_signs);
    }
    num_signs += static_cast<uint32_t>(totals >> shift & 0xFFFF);
  }
  return num_signs;
}

// Computes where the masks of the parts of chunk c and the signs of its tiles begin. Called by the
// last thread block of the chunk.
__device__ void LayOutChunk(const DeviceTiling& tiling, uint32_t c,
                            const TernaryWorkspace& workspace, uint64_t* sizes) {
  __shared__ uint32_t row[kWarps];
  const TiledChunk chunk = tiling.chunks[c];
  uint64_t next_byte = 0;
  for (uint32_t p = chunk.part_begin; p < chunk.part_end; ++p) {
    const TiledPart part = tiling.parts[p];
    const uint32_t num_tiles = TilesOf(part.part.count);
    uint32_t num_ones = 0;
    for (uint32_t begin = 0; begin < num_tiles; begin += kThreads) {
      const uint32_t i = begin + threadIdx.x;
      const uint32_t tile_ones =
          i < num_tiles ? LoadFresh(workspace.num_ones + part.tile_begin + i) : 0;
      uint32_t step_ones;
      const uint32_t ones_before = SumBefore<kThreads>(tile_ones, row, &step_ones);
      if (i < num_tiles) workspace.sign_offsets[part.tile_begin + i] = num_ones + ones_before;
      num_ones += step_ones;
    }
    if (threadIdx.x == 0) workspace.mask_offsets[p] = next_byte;
    next_byte += BytesForBits(part.part.count) + BytesForBits(num_ones);
  }
  if (threadIdx.x == 0) sizes[c] = next_byte;
}

__global__ void __launch_bounds__(kThreads)
    CodeTiles(const float* arena, DeviceTiling tiling, const TernaryScale* scales, NoiseKey key,
              TernaryWorkspace workspace, uint64_t* sizes) {
  __shared__ uint32_t signs[kTileMaskBytes / 4];
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const uint64_t begin = uint64_t{tile.index} * kTile;
  key.tensor = part.tensor;
  const Elements elements{arena + part.begin + begin, CountOf(part, tile.index),
                          part.first + begin};
  signs[threadIdx.x] = 0;
  const Codes codes = EncodeRuns(elements, scales[tile.part], key);
  uint8_t* masks = workspace.masks + uint64_t{blockIdx.x} * kTileMaskBytes + threadIdx.x;
#pragma unroll
  for (uint32_t pass = 0; pass < kPasses; ++pass)
    masks[pass * kThreads] = static_cast<uint8_t>(codes.fires >> 8 * pass);
  const uint32_t num_signs = GatherSigns(codes, signs);
  __syncthreads();
  reinterpret_cast<uint32_t*>(
      workspace.signs)[uint64_t{blockIdx.x} * (kTileMaskBytes / 4) + threadIdx.x] =
      signs[threadIdx.x];
  if (threadIdx.x == 0) workspace.num_ones[blockIdx.x] = num_signs;
  const TiledChunk chunk = tiling.chunks[part.chunk];
  if (IsLastBlockOf(workspace.num_finished + part.chunk, chunk.tile_end - chunk.tile_begin))
    LayOutChunk(tiling, part.chunk, workspace, sizes);
}

// A range of up to four bytes of an array of bytes, `row`: bytes [begin, end), which lie in one
// aligned 32-bit word.
struct WordPiece {
  uint8_t* row;
  uint32_t begin, end;  // byte offsets in the row
  __device__ bool HasBytes() const { return begin < end; }
  // Writes the low bytes of `bytes` to the range.
  __device__ void Store(uint32_t bytes) const {
    if (end - begin == 4) {
      *reinterpret_cast<uint32_t*>(row + begin) = bytes;
      return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
      if (begin + i < end) row[begin + i] = static_cast<uint8_t>(bytes >> 8 * i);
    }
  }
};

// Returns those bytes of [begin, end) of `row` that lie in aligned word number `word`, counted from
// the word with byte `begin`.
__device__ WordPiece PieceOf(uint8_t* row, uint32_t begin, uint32_t end, uint32_t word) {
  const auto offset_in_word = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row + begin) % 4);
  const uint32_t unaligned_begin = begin + 4 * word;
  return {row, word == 0 ? begin : unaligned_begin - offset_in_word,
          unaligned_begin + 4 - offset_in_word < end ? unaligned_begin + 4 - offset_in_word : end};
}
// The most pieces of a tile: its whole words, and one more if it begins inside a word.
constexpr uint32_t kMaxPieces = kTileMaskBytes / 4 + 1;

// Returns 32 bits of a tile, from bit `from` on. Bits after the last bit of the tile are zero.
__device__ uint32_t BitsOfTile(const uint8_t* tile_bits, uint32_t tile, uint32_t from) {
  const auto* words =
      reinterpret_cast<const uint32_t*>(tile_bits + uint64_t{tile} * kTileMaskBytes) + from / 32;
  const uint32_t shift = from % 32;
  const uint32_t low = words[0] >> shift;
  return shift == 0 || from / 32 + 1 == kTileMaskBytes / 4 ? low : low | words[1] << (32 - shift);
}

// Returns 32 signs of a part, from bit `begin_bit` of the part's signs on. The first belongs to
// tile number `tile`, whose `num_tile_signs` signs begin at bit `tile_begin_bit`. The part's tiles
// end before `tile_end`. Bits after the last sign are zero.
__device__ uint32_t SignsFrom(const TernaryWorkspace& workspace, uint32_t tile, uint32_t tile_end,
                              uint32_t tile_begin_bit, uint32_t num_tile_signs,
                              uint32_t begin_bit) {
  uint32_t signs = BitsOfTile(workspace.signs, tile, begin_bit - tile_begin_bit);
  uint32_t num_signs = tile_begin_bit + num_tile_signs - begin_bit;
  for (uint32_t next = tile + 1; num_signs < 32 && next < tile_end; ++next) {
    signs |= BitsOfTile(workspace.signs, next, 0) << num_signs;
    num_signs += workspace.num_ones[next];
  }
  return signs;
}

__global__ void __launch_bounds__(kThreads)
    WriteTiles(DeviceTiling tiling, TernaryWorkspace workspace, uint8_t* out) {
  const uint32_t tile_number = blockIdx.x;
  const uint32_t first_sign = workspace.sign_offsets[tile_number],
                 num_signs = workspace.num_ones[tile_number];
  const Tile tile = tiling.tiles[tile_number];
  const TiledPart part = tiling.parts[tile.part];
  const uint32_t tile_end = part.tile_begin + TilesOf(part.part.count);
  uint8_t* masks =
      out + tiling.chunks[part.part.chunk].code_begin + workspace.mask_offsets[tile.part];
  uint8_t* signs = masks + BytesForBits(part.part.count);
  const uint32_t mask_begin = tile.index * kTileMaskBytes;
  const auto mask_bytes = static_cast<uint32_t>(BytesForBits(CountOf(part.part, tile.index)));
  // This block writes the bytes of signs whose first bit belongs to its tile.
  const auto sign_begin = static_cast<uint32_t>(BytesForBits(first_sign));
  const auto sign_end = static_cast<uint32_t>(BytesForBits(uint64_t{first_sign} + num_signs));
  for (uint32_t i = threadIdx.x; i < kMaxPieces; i += kThreads) {
    const WordPiece mask = PieceOf(masks, mask_begin, mask_begin + mask_bytes, i);
    const WordPiece sign = PieceOf(signs, sign_begin, sign_end, i);
    uint32_t mask_word = 0, sign_word = 0;  // Both are loaded before the first is stored.
    if (mask.HasBytes())
      mask_word = BitsOfTile(workspace.masks, tile_number, 8 * (mask.begin - mask_begin));
    if (sign.HasBytes())
      sign_word =
          SignsFrom(workspace, tile_number, tile_end, first_sign, num_signs, 8 * sign.begin);
    if (mask.HasBytes()) mask.Store(mask_word);
    if (sign.HasBytes()) sign.Store(sign_word);
  }
}

}  // namespace

int TernarizeOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                      const TernaryScale* scales, const NoiseKey& key,
                      const TernaryWorkspace& workspace, uint8_t* out, uint64_t* sizes) {
  const int error = Launch(CodeTiles, tiling.tile_count, kThreads, stream, arena, tiling, scales,
                           key, workspace, sizes);
  if (error != 0) return error;
  return Launch(WriteTiles, tiling.tile_count, kThreads, stream, tiling, workspace, out);
}

}  // namespace tern::kernels
