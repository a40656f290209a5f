// Ternary codes on a GPU, of many tensors in two launches:
//
//   CodeTiles    a thread block a tile: its mask, and its signs one after the other. The last block
//                of a chunk adds up where each part and each tile's signs begin
//   PlaceTiles   puts both where they belong in the code of the chunk
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
constexpr uint32_t kTileBytes = kTile / 8;  // of a mask

__device__ uint64_t BytesOf(uint64_t bits) { return (bits + 7) / 8; }

// A thread's elements: an eight of every turn, the codes of a byte of the mask.
constexpr uint32_t kTurns = kTileBytes / kThreads;
static_assert(kTurns == 4, "a thread's codes are a word");

struct Elements {
  const float* from;   // the first of the tile, in the arena
  uint32_t count;      // of the tile
  uint64_t of_tensor;  // the first of the tile, in its tensor
  __device__ uint32_t First(uint32_t turn) const {
    return (turn * kThreads + threadIdx.x) * kEight;
  }
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

// Two turns' loads are on their way at once; with all four a block would take registers that more
// blocks need more.
__device__ Codes CodeThreads(const Elements& elements, const TernaryScale& scale,
                             const NoiseKey& key) {
  constexpr uint32_t kAtOnce = 2;
  const QuickScale by = QuickScaleOf(scale.scaler, scale.clip);
  QuickCodes all;
#pragma unroll 1
  for (uint32_t turn = 0; turn < kTurns; turn += kAtOnce) {
    Eight g[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i)
      g[i] = Load(elements.from + elements.First(turn + i), elements.Count(turn + i));
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t bits = 8 * (turn + i);
      const PhiloxWords draws = NoiseOfEight(key, elements.of_tensor + elements.First(turn + i));
      const QuickCodes codes = DecideQuickly(g[i].x, draws, by);
      all.below |= codes.below << bits;
      all.negative |= codes.negative << bits;
      all.unsure |= codes.unsure << bits;
    }
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

// Up to four bytes of a row: those from `begin` to `end` of an aligned word of it.
struct PiecePlace {
  uint8_t* to;
  uint32_t begin, end;  // of the row
  __device__ bool IsThere() const { return begin < end; }
  __device__ void Put(uint32_t bytes) const {
    if (end - begin == 4) {
      *reinterpret_cast<uint32_t*>(to + begin) = bytes;
      return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
      if (begin + i < end) to[begin + i] = static_cast<uint8_t>(bytes >> 8 * i);
    }
  }
};

// Word `word`, as they lie in memory, of bytes [begin, end) of the row at `to`.
__device__ PiecePlace PieceOf(uint8_t* to, uint32_t begin, uint32_t end, uint32_t word) {
  const auto inside = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to + begin) % 4);
  const uint32_t first = begin + 4 * word;
  return {to, word == 0 ? begin : first - inside,
          first + 4 - inside < end ? first + 4 - inside : end};
}
// What a tile's bytes may take of them: as many as fit, and one more where they begin inside one.
constexpr uint32_t kPieces = kTileBytes / 4 + 1;

// 32 bits from bit `from` on of a tile's; zeros behind its last.
__device__ uint32_t BitsOfTile(const uint8_t* of_tiles, uint32_t tile, uint32_t from) {
  const auto* words =
      reinterpret_cast<const uint32_t*>(of_tiles + uint64_t{tile} * kTileBytes) + from / 32;
  const uint32_t shift = from % 32;
  const uint32_t low = words[0] >> shift;
  return shift == 0 || from / 32 + 1 == kTileBytes / 4 ? low : low | words[1] << (32 - shift);
}

// 32 signs of a part from bit `at` on, of which the first is of `tile`; zeros behind the last.
__device__ uint32_t SignsFrom(const TernaryRoom& room, uint32_t tile, uint32_t tile_end,
                              uint32_t first, uint32_t ones, uint32_t at) {
  uint32_t signs = BitsOfTile(room.signs, tile, at - first), got = first + ones - at;
  for (uint32_t next = tile + 1; got < 32 && next < tile_end; ++next) {
    signs |= BitsOfTile(room.signs, next, 0) << got;
    got += room.ones[next];
  }
  return signs;
}

__global__ void __launch_bounds__(kThreads)
    PlaceTiles(DeviceTiling tiling, TernaryRoom room, uint8_t* out) {
  const uint32_t t = blockIdx.x;
  const uint32_t first = room.sign_bit[t], ones = room.ones[t];
  const Tile tile = tiling.tiles[t];
  const TiledPart part = tiling.parts[tile.part];
  const uint32_t tile_end = part.tile_begin + TilesOf(part.part.count);
  uint8_t* masks = out + tiling.chunks[part.part.chunk].out + room.mask_begin[tile.part];
  uint8_t* signs = masks + BytesOf(part.part.count);
  const uint32_t mask_begin = tile.index * kTileBytes;
  const auto mask_bytes = static_cast<uint32_t>(BytesOf(CountOf(part.part, tile.index)));
  // The bytes whose first bit is this tile's.
  const auto sign_begin = static_cast<uint32_t>(BytesOf(first));
  const auto sign_end = static_cast<uint32_t>(BytesOf(uint64_t{first} + ones));
  for (uint32_t i = threadIdx.x; i < kPieces; i += kThreads) {
    const PiecePlace mask = PieceOf(masks, mask_begin, mask_begin + mask_bytes, i);
    const PiecePlace sign = PieceOf(signs, sign_begin, sign_end, i);
    uint32_t mask_word = 0, sign_word = 0;  // read before either is written
    if (mask.IsThere()) mask_word = BitsOfTile(room.masks, t, 8 * (mask.begin - mask_begin));
    if (sign.IsThere()) sign_word = SignsFrom(room, t, tile_end, first, ones, 8 * sign.begin);
    if (mask.IsThere()) mask.Put(mask_word);
    if (sign.IsThere()) sign.Put(sign_word);
  }
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
