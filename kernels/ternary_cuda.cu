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

// Eight elements, the codes of one byte of the mask.
struct ByteOfCodes {
  uint32_t mask = 0, signs = 0, ones = 0;
};

// `element`: of the tensor, the first of them.
__device__ ByteOfCodes CodeEight(const float* from, uint32_t count, const TernaryScale& scale,
                                 float inverse, const NoiseKey& key, uint64_t element) {
  const Eight g = Load(from, count);
  const PhiloxWords draws = NoiseOfEight(key, element);
  ByteOfCodes codes;
#pragma unroll
  for (uint32_t k = 0; k < 8; ++k) {
    const float value = g.x[k];
    const Fire quickly = FiresQuickly(value, inverse, scale.clip, DrawOf(draws, k));
    const bool fires = quickly == Fire::kUncertain
                           ? Fires(value, scale.scaler, scale.clip, key, element + k)
                           : quickly == Fire::kYes;
    if (!fires) continue;
    codes.mask |= 1u << k;
    codes.signs |= (value < 0 ? 1u : 0u) << codes.ones;
    ++codes.ones;
  }
  return codes;
}

// By the last block of a chunk.
__device__ void PlanChunk(const DeviceTiling& tiling, uint32_t c, const TernaryRoom& room,
                          uint32_t* row, uint64_t* sizes) {
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
  __shared__ uint32_t row[kWarps];
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const TernaryScale scale = scales[tile.part];
  const uint32_t count = CountOf(part, tile.index);
  const uint64_t begin = uint64_t{tile.index} * kTile;
  const float inverse = InverseScaler(scale.scaler);
  key.tensor = part.tensor;
  signs[threadIdx.x] = 0;
  uint32_t ones = 0;
  for (uint32_t byte = threadIdx.x; byte < kTileBytes; byte += kThreads) {
    const uint32_t first = byte * 8;
    ByteOfCodes codes;
    if (first < count) {
      const uint32_t here = count - first < 8 ? count - first : 8;
      codes = CodeEight(arena + part.begin + begin + first, here, scale, inverse, key,
                        part.first + begin + first);
      room.masks[uint64_t{blockIdx.x} * kTileBytes + byte] = static_cast<uint8_t>(codes.mask);
    }
    uint32_t total;
    const uint32_t at =
        ones + SumBefore<kThreads>(codes.ones, row, &total);  // all have zeroed `signs` then
    if (codes.signs != 0) {
      atomicOr(signs + at / 32, codes.signs << at % 32);
      if (at % 32 + codes.ones > 32) atomicOr(signs + at / 32 + 1, codes.signs >> (32 - at % 32));
    }
    ones += total;
  }
  __syncthreads();
  reinterpret_cast<uint32_t*>(room.signs)[uint64_t{blockIdx.x} * (kTileBytes / 4) + threadIdx.x] =
      signs[threadIdx.x];
  if (threadIdx.x == 0) room.ones[blockIdx.x] = ones;
  const TiledChunk chunk = tiling.chunks[part.chunk];
  if (IsLastOf(room.done + part.chunk, chunk.tile_end - chunk.tile_begin))
    PlanChunk(tiling, part.chunk, room, row, sizes);
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
