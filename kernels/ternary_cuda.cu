// Ternary codes on a GPU, of many tensors in two launches:
//
//   CodeTiles    a thread block a tile: its mask, and its signs one after the other. The last block
//                of a chunk adds up where each part and each tile's signs begin
//   PlaceTiles   puts both where they belong in the code of the chunk
#include <cuda_runtime.h>

#include "kernels/device.h"
#include "kernels/eight_inl.h"
#include "kernels/launch_inl.h"
#include "kernels/ternary.h"
#include "kernels/ternary_inl.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / 32;
constexpr uint32_t kTileBytes = kTile / 8;  // of a mask

__device__ uint64_t BytesOf(uint64_t bits) { return (bits + 7) / 8; }

// A thread's elements: an eight of every turn, the codes of a byte of the mask.
constexpr uint32_t kTurns = kTileBytes / kThreads;
static_assert(kTurns == 4, "a thread's codes are a word");

struct Elements {
  const float* from;     // the tile's first of the arena
  uint32_t count;        // of the tile
  uint64_t of_tensor;    // the first of the tile, of its tensor
  __device__ uint32_t First(uint32_t turn) const { return (turn * kThreads + threadIdx.x) * kEight; }
  // How many there are from First(turn) on, of eight.
  __device__ uint32_t Count(uint32_t turn) const {
    const uint32_t first = First(turn);
    return first < count ? EightOf(count - first) : 0;
  }
};

// Those that the quick test could not tell; few, so it is one loop for all of them.
__device__ uint32_t FireSlowly(const Elements& elements, uint32_t unsure, const TernaryScale& scale,
                               const NoiseKey& key) {
  uint32_t fires = 0;
  while (unsure != 0) {
    const auto place = static_cast<uint32_t>(__ffs(static_cast<int>(unsure))) - 1;
    unsure &= unsure - 1;
    const uint32_t i = elements.First(place / kEight) + place % kEight;
    if (i < elements.count &&
        Fires(elements.from[i], scale.scaler, scale.clip, key, elements.of_tensor + i))
      fires |= 1u << place;
  }
  return fires;
}

struct Codes {
  uint32_t fires, negative;  // bit k of byte `turn`: element k of an eight
};

// All loads are on their way before the first value is needed.
__device__ Codes CodeThreads(const Elements& elements, const TernaryScale& scale,
                             const NoiseKey& key) {
  const QuickScale by = QuickScaleOf(scale.scaler, scale.clip);
  Eight g[kTurns];
#pragma unroll
  for (uint32_t turn = 0; turn < kTurns; ++turn)
    g[turn] = Load(elements.from + elements.First(turn), elements.Count(turn));
  QuickCodes all;
#pragma unroll
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    const PhiloxWords draws = NoiseOfEight(key, elements.of_tensor + elements.First(turn));
    const QuickCodes codes = DecideQuickly(g[turn].x, draws, by);
    all.below |= codes.below << 8 * turn;
    all.negative |= codes.negative << 8 * turn;
    all.unsure |= codes.unsure << 8 * turn;
  }
  const uint32_t slowly = FireSlowly(elements, all.unsure, scale, key);
  return {(~all.below & ~all.unsure) | slowly, all.negative};
}

// Where the ones of a turn are counted in a word for all four: 16 bits hold those of a tile.
__device__ uint32_t PlaceOfTurn(uint32_t turn) { return turn % 2 * 32 + turn / 2 * 16; }

__device__ uint64_t CountTurns(uint32_t fires) {
  const uint32_t ones = OnesOfBytes(fires);
  return uint64_t{ones >> 8 & 0x00FF00FF} << 32 | (ones & 0x00FF00FF);
}

// The signs of this thread's codes among those of the tile, which are zero before; the number of
// those.
__device__ uint32_t GatherSigns(const Codes& codes, uint32_t* signs) {
  __shared__ uint64_t row[kWarps];
  const uint64_t mine = CountTurns(codes.fires);
  const uint32_t packed = CompressBytes(codes.negative, codes.fires);
  uint64_t totals;
  const uint64_t before = SumBefore<kThreads>(mine, row, &totals);  // all have zeroed `signs` then
  uint32_t ones = 0;
#pragma unroll
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    const uint32_t place = PlaceOfTurn(turn);
    const uint32_t at = ones + static_cast<uint32_t>(before >> place & 0xFFFF);
    const uint32_t few = packed >> 8 * turn & 0xFF;
    if (few != 0) {
      const uint64_t spread = uint64_t{few} << at % 32;
      atomicOr(signs + at / 32, static_cast<uint32_t>(spread));
      const auto rest = static_cast<uint32_t>(spread >> 32);
      if (rest != 0) atomicOr(signs + at / 32 + 1, rest);
    }
    ones += static_cast<uint32_t>(totals >> place & 0xFFFF);
  }
  return ones;
}

// By the last block of a chunk.
__device__ void PlanChunk(const DeviceTiling& tiling, uint32_t c, const TernaryRoom& room,
                          uint64_t* sizes) {
  __shared__ uint32_t row[kWarps];
  const TiledChunk chunk = tiling.chunks[c];
  uint64_t at = 0;
  for (uint32_t p = chunk.part_begin; p < chunk.part_end; ++p) {
    const TiledPart part = tiling.parts[p];
    const uint32_t tiles = TilesOf(part.part.count);
    uint32_t ones = 0;
    for (uint32_t begin = 0; begin < tiles; begin += kThreads) {
      const uint32_t i = begin + threadIdx.x;
      const uint32_t mine = i < tiles ? LoadFresh(room.ones + part.tile_begin + i) : 0;
      uint32_t total;
      const uint32_t before = SumBefore<kThreads>(mine, row, &total);
      if (i < tiles) room.sign_bit[part.tile_begin + i] = ones + before;
      ones += total;
    }
    if (threadIdx.x == 0) room.mask_begin[p] = at;
    at += BytesOf(part.part.count) + BytesOf(ones);
  }
  if (threadIdx.x == 0) sizes[c] = at;
}

__global__ void __launch_bounds__(kThreads)
    CodeTiles(const float* arena, DeviceTiling tiling, const TernaryScale* scales, NoiseKey key,
              TernaryRoom room, uint64_t* sizes) {
  __shared__ uint32_t signs[kTileBytes / 4];
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const uint64_t begin = uint64_t{tile.index} * kTile;
  key.tensor = part.tensor;
  const Elements elements{arena + part.begin + begin, CountOf(part, tile.index),
                          part.first + begin};
  signs[threadIdx.x] = 0;
  const Codes codes = CodeThreads(elements, scales[tile.part], key);
  uint8_t* masks = room.masks + uint64_t{blockIdx.x} * kTileBytes + threadIdx.x;
#pragma unroll
  for (uint32_t turn = 0; turn < kTurns; ++turn)
    masks[turn * kThreads] = static_cast<uint8_t>(codes.fires >> 8 * turn);
  const uint32_t ones = GatherSigns(codes, signs);
  __syncthreads();
  reinterpret_cast<uint32_t*>(room.signs)[uint64_t{blockIdx.x} * (kTileBytes / 4) + threadIdx.x] =
      signs[threadIdx.x];
  if (threadIdx.x == 0) room.ones[blockIdx.x] = ones;
  const TiledChunk chunk = tiling.chunks[part.chunk];
  if (IsLastOf(room.done + part.chunk, chunk.tile_end - chunk.tile_begin))
    PlanChunk(tiling, part.chunk, room, sizes);
}

// Eight signs of a part from bit `at` on, of which the first is of `tile`; zeros behind the last.
__device__ uint8_t EightSigns(const TernaryRoom& room, uint32_t tile, uint32_t tile_end,
                              uint32_t at) {
  const uint8_t* bytes = room.signs + uint64_t{tile} * kTileBytes;
  const uint32_t from = at - room.sign_bit[tile];
  uint32_t word = bytes[from / 8];
  if (from / 8 + 1 < kTileBytes) word |= uint32_t{bytes[from / 8 + 1]} << 8;
  uint32_t got = room.ones[tile] - from;
  uint32_t signs = word >> from % 8 & (got < 8 ? (1u << got) - 1 : 0xFF);
  for (uint32_t next = tile + 1; got < 8 && next < tile_end; ++next) {
    signs |= uint32_t{room.signs[uint64_t{next} * kTileBytes]} << got;
    got += room.ones[next];
  }
  return static_cast<uint8_t>(signs);
}

__global__ void __launch_bounds__(kThreads)
    PlaceTiles(DeviceTiling tiling, TernaryRoom room, uint8_t* out) {
  const uint32_t t = blockIdx.x;
  const Tile tile = tiling.tiles[t];
  const TiledPart part = tiling.parts[tile.part];
  const uint32_t tile_end = part.tile_begin + TilesOf(part.part.count);
  uint8_t* masks = out + tiling.chunks[part.part.chunk].out + room.mask_begin[tile.part];
  uint8_t* signs = masks + BytesOf(part.part.count);
  const auto bytes = static_cast<uint32_t>(BytesOf(CountOf(part.part, tile.index)));
  for (uint32_t i = threadIdx.x; i < bytes; i += kThreads)
    masks[uint64_t{tile.index} * kTileBytes + i] = room.masks[uint64_t{t} * kTileBytes + i];
  // The bytes whose first bit is this tile's.
  const uint32_t first = room.sign_bit[t], end = first + room.ones[t];
  for (uint32_t i = (first + 7) / 8 + threadIdx.x; i * 8 < end; i += kThreads)
    signs[i] = EightSigns(room, t, tile_end, i * 8);
}

}  // namespace

int TernarizeOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                      const TernaryScale* scales, const NoiseKey& key, const TernaryRoom& room,
                      uint8_t* out, uint64_t* sizes) {
  const int coded = Launch(CodeTiles, tiling.tile_count, kThreads, stream, arena, tiling, scales,
                           key, room, sizes);
  if (coded != 0) return coded;
  return Launch(PlaceTiles, tiling.tile_count, kThreads, stream, tiling, room, out);
}

}  // namespace tern::kernels
