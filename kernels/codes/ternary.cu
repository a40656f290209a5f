// Encodes many tensors with ternary codes (ternary.h) on a GPU, in two launches:
//
//   CodeTiles   writes the mask and the packed signs of each tile to the workspace. The last
//               warp of a chunk computes where each part's mask and each tile's signs begin
//   WriteTiles  copies masks and signs from the workspace to the code of the chunk
//
// One warp per tile. A part is a run of elements of one tensor that has a code of its own;
// a tile is a range of at most 4096 elements of a part; a chunk is neighbouring parts whose codes
// are sent together (kernels/device/tiling.h). An element "fires" if its code is not 0.
#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/codes/ternary.h"
#include "kernels/codes/ternary_math.h"
#include "kernels/codes/word_pieces.cuh"
#include "kernels/device/eight.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / 32;
// Thread blocks of CodeTiles per multiprocessor. With more, threads have too few registers to load
// two runs before they compute.
constexpr uint32_t kResidentBlocks = 7;
constexpr uint32_t kTileMaskBytes = kTile / 8;  // bytes of a tile's mask

// The number of this warp, if each warp of a launch has one tile.
__device__ uint32_t TileOfWarp() { return blockIdx.x * kWarps + threadIdx.x / 32; }

__device__ uint64_t BytesForBits(uint64_t bits) { return (bits + 7) / 8; }

constexpr uint32_t kTileWords = kTile / 32;  // words of a tile's mask

// A warp encodes a tile in sections of 1024 elements. In a section, each thread decides which
// elements of four runs fire; a run has eight elements. The runs of pass 0 are the section's first
// 32 runs, one per thread, and so on. Then each thread takes 32 neighbouring elements, a word of
// the mask, and packs their signs.
constexpr uint32_t kPasses = 4;
constexpr uint32_t kSection = kPasses * 32 * kEight;
static_assert(kSection == 32 * 32, "each thread has a word of the mask");

// The elements of a tile.
struct Elements {
  const float* values;    // the tile's first element, in the arena
  uint32_t count;         // elements of the tile
  uint64_t tensor_begin;  // index of the tile's first element in its tensor

  // Whether all runs are complete, can be loaded as vectors, and have one block of random numbers.
  __device__ bool AreAligned() const {
    return count == kTile && CanLoadVector(values, kEight) && tensor_begin % kEight == 0;
  }
  // Loads the run that begins at an element. Elements after the last one are zero.
  template <bool kAligned>
  __device__ EightFloats LoadRun(uint32_t begin) const {
    if constexpr (kAligned) {
      const auto* from = reinterpret_cast<const float4*>(values + begin);
      const float4 a = __ldcs(from), b = __ldcs(from + 1);
      return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    } else {
      return Load(values + begin, begin < count ? AtMostEight(count - begin) : 0);
    }
  }
  // The random numbers of the run that begins at an element.
  template <bool kAligned>
  __device__ PhiloxWords NoiseOfRun(const NoiseKey& key, const PhiloxKeys& keys,
                                    uint32_t begin) const {
    if constexpr (kAligned)
      return NoiseWords(key, keys, static_cast<uint32_t>((tensor_begin + begin) / kEight));
    else
      return NoiseOfEight(key, tensor_begin + begin);
  }
};

// What FiresExactly needs of a part.
struct ExactRule {
  TernaryScale scale;
  NoiseKey key;
};

// Shared memory of a warp.
struct WarpMemory {
  uint32_t signs[kTileWords];  // the tile's packed signs
  // One bit per element of a section: whether it does not fire, and whether it is negative.
  uint32_t not_firing[32], negative[32];
  // An ExactRule, which only DecideExactly needs. In registers it would take room from what all
  // sections need. As bytes, because shared memory cannot have constructors.
  alignas(ExactRule) std::byte rule[sizeof(ExactRule)];
  __device__ ExactRule& exact_rule() { return *reinterpret_cast<ExactRule*>(rule); }
};
__device__ uint8_t& ByteOf(uint32_t* words, uint32_t byte) {
  return reinterpret_cast<uint8_t*>(words)[byte];
}

// Whether an element fires, by the exact and slow function Fires. Not inlined, so that it does not
// take registers from the rest.
__device__ __noinline__ bool FiresExactly(float g, uint64_t element, const ExactRule& rule) {
  return Fires(g, rule.scale.scaler, rule.scale.clip, rule.key, element);
}

// Decides with FiresExactly. The warp decides the four runs of each of the
// threads in `unsure_threads`, one bit per thread: each thread decides one element.
__device__ void DecideExactly(const Elements& elements, uint32_t section, uint32_t unsure_threads,
                              WarpMemory* memory) {
  const uint32_t lane = threadIdx.x % 32;
  for (; unsure_threads != 0; unsure_threads &= unsure_threads - 1) {
    const auto thread = static_cast<uint32_t>(__ffs(static_cast<int>(unsure_threads))) - 1;
    const uint32_t run = lane / kEight * 32 + thread;
    const uint32_t i = section + run * kEight + lane % kEight;
    const bool fires =
        i < elements.count &&
        FiresExactly(elements.values[i], elements.tensor_begin + i, memory->exact_rule());
    const uint32_t not_firing = ~__ballot_sync(kAllLanes, fires);
    if (lane % kEight == 0)
      ByteOf(memory->not_firing, run) = static_cast<uint8_t>(not_firing >> lane);
  }
}

// The codes of a thread's 32 neighbouring elements of a section.
struct Codes {
  uint32_t fires, negative;
};

// Encodes the section that begins at element `section` of a tile. Loads two runs at a time, because
// loading all four takes so many registers that fewer thread blocks can be resident.
template <bool kAligned>
__device__ Codes EncodeSection(const Elements& elements, uint32_t section,
                               const QuickScale& quick_scale, const NoiseKey& key,
                               const PhiloxKeys& keys, WarpMemory* memory) {
  constexpr uint32_t kRunsAtOnce = 2;
  const uint32_t lane = threadIdx.x % 32;
  float min_margin = 1;
#pragma unroll 1
  for (uint32_t pass = 0; pass < kPasses; pass += kRunsAtOnce) {
    const uint32_t first_run = pass * 32 + lane;
    EightFloats g[kRunsAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kRunsAtOnce; ++i)
      g[i] = elements.LoadRun<kAligned>(section + (first_run + i * 32) * kEight);
#pragma unroll
    for (uint32_t i = 0; i < kRunsAtOnce; ++i) {
      const uint32_t run = first_run + i * 32;
      const QuickCodes codes = DecideQuickly(
          g[i].x, elements.NoiseOfRun<kAligned>(key, keys, section + run * kEight), quick_scale);
      ByteOf(memory->not_firing, run) = static_cast<uint8_t>(codes.not_firing);
      ByteOf(memory->negative, run) = static_cast<uint8_t>(codes.negative);
      min_margin = MinOrNan(min_margin, codes.min_margin);
    }
  }
  const uint32_t unsure_threads = __ballot_sync(kAllLanes, !(min_margin >= kMinMargin));
  __syncwarp();
  if (unsure_threads != 0) {
    DecideExactly(elements, section, unsure_threads, memory);
    __syncwarp();
  }
  const Codes codes{~memory->not_firing[lane], memory->negative[lane]};
  __syncwarp();
  return codes;
}

// Moves the bits of `bits` at the positions where `mask` is one to the low end, in order.
__device__ uint32_t CompressWord(uint32_t bits, uint32_t mask) {
  const uint32_t bytes = CompressBytes(bits, mask);
  return (bytes & 0xFF) | (bytes >> 8 & 0xFF) << __popc(mask & 0xFF) |
         (bytes >> 16 & 0xFF) << __popc(mask & 0xFFFF) | (bytes >> 24) << __popc(mask & 0xFFFFFF);
}

// Appends the signs of a section's codes to the tile's `num_signs` packed signs, in shared memory.
// Returns the new number of signs. REQUIRES that all bits after the last sign are zero.
__device__ uint32_t AppendSigns(const Codes& codes, uint32_t num_signs, uint32_t* signs) {
  const auto count = static_cast<uint32_t>(__popc(codes.fires));
  const uint32_t count_up_to_thread = SumUpToThread(count);
  const uint32_t packed_signs = CompressWord(codes.negative, codes.fires);
  const uint32_t first_bit = num_signs + count_up_to_thread - count;
  if (packed_signs != 0) {
    const uint64_t shifted_signs = uint64_t{packed_signs} << first_bit % 32;
    atomicOr(signs + first_bit / 32, static_cast<uint32_t>(shifted_signs));
    const auto next_signs = static_cast<uint32_t>(shifted_signs >> 32);
    if (next_signs != 0) atomicOr(signs + first_bit / 32 + 1, next_signs);
  }
  return num_signs + __shfl_sync(kAllLanes, count_up_to_thread, 31);
}

// Encodes a tile. Writes its mask to `mask`, and its packed signs to shared memory. Returns the
// number of signs.
template <bool kAligned>
__device__ uint32_t EncodeTile(const Elements& elements, const TernaryScale& scale,
                               const NoiseKey& key, const PhiloxKeys& keys, uint32_t* mask,
                               WarpMemory* memory) {
  const uint32_t lane = threadIdx.x % 32;
  const QuickScale quick_scale = QuickScaleOf(scale.scaler, scale.clip);
  for (uint32_t word = lane; word < kTileWords; word += 32) memory->signs[word] = 0;
  if (lane == 0) memory->exact_rule() = {scale, key};
  __syncwarp();
  uint32_t num_signs = 0, section = 0;
#pragma unroll 1
  for (; section < elements.count; section += kSection) {
    const Codes codes = EncodeSection<kAligned>(elements, section, quick_scale, key, keys, memory);
    mask[section / 32 + lane] = codes.fires;
    num_signs = AppendSigns(codes, num_signs, memory->signs);
  }
  // WriteTiles may read one more word than there are words with elements.
  if (section < kTile && lane == 0) mask[section / 32] = 0;
  __syncwarp();
  return num_signs;
}

// Computes where the masks of the parts of chunk c and the signs of its tiles begin. Called by the
// last warp of the chunk.
__device__ void LayOutChunk(const DeviceTiling& tiling, uint32_t c,
                            const TernaryWorkspace& workspace, uint64_t* sizes) {
  constexpr uint32_t kTilesAtOnce = 8;  // tiles per thread that are loaded at once
  const uint32_t lane = threadIdx.x % 32;
  const TiledChunk chunk = tiling.chunks[c];
  uint32_t num_ones = 0;
  for (uint32_t begin = chunk.tile_begin; begin < chunk.tile_end; begin += 32 * kTilesAtOnce) {
    uint32_t tile_ones[kTilesAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kTilesAtOnce; ++k) {
      const uint32_t i = begin + k * 32 + lane;
      tile_ones[k] = i < chunk.tile_end ? LoadFresh(workspace.num_ones + i) : 0;
    }
#pragma unroll
    for (uint32_t k = 0; k < kTilesAtOnce; ++k) {
      const uint32_t i = begin + k * 32 + lane, ones_up_to_tile = SumUpToThread(tile_ones[k]);
      if (i < chunk.tile_end) workspace.sign_offsets[i] = num_ones + ones_up_to_tile - tile_ones[k];
      num_ones += __shfl_sync(kAllLanes, ones_up_to_tile, 31);
    }
  }
  __syncwarp();
  uint64_t next_byte = 0;
  for (uint32_t begin = chunk.part_begin; begin < chunk.part_end; begin += 32) {
    const uint32_t p = begin + lane;
    uint64_t bytes = 0;
    if (p < chunk.part_end) {
      const TiledPart part = tiling.parts[p];
      const uint32_t tile_end = part.tile_begin + TilesOf(part.part.count);
      const uint32_t ones_before = LoadFresh(workspace.sign_offsets + part.tile_begin);
      const uint32_t ones_up_to_end =
          tile_end < chunk.tile_end ? LoadFresh(workspace.sign_offsets + tile_end) : num_ones;
      bytes = BytesForBits(part.part.count) + BytesForBits(ones_up_to_end - ones_before);
    }
    __syncwarp();
    const uint64_t bytes_up_to_part = SumUpToThread(bytes);
    if (p < chunk.part_end) workspace.mask_offsets[p] = next_byte + bytes_up_to_part - bytes;
    next_byte += __shfl_sync(kAllLanes, bytes_up_to_part, 31);
  }
  if (lane == 0) sizes[c] = next_byte;
}

// Encodes the last tiles first: the statistics of the same tensors often come just before, and
// what they have read last is still in the L2 cache.
__global__ void __launch_bounds__(kThreads, kResidentBlocks)
    CodeTiles(const float* arena, DeviceTiling tiling, const TernaryScale* scales, NoiseKey key,
              PhiloxKeys keys, TernaryWorkspace workspace, uint64_t* sizes) {
  __shared__ WarpMemory memories[kWarps];
  const uint32_t lane = threadIdx.x % 32, tile_from_end = TileOfWarp();
  if (tile_from_end >= tiling.tile_count) return;
  const uint32_t tile_number = tiling.tile_count - 1 - tile_from_end;
  WarpMemory* memory = memories + threadIdx.x / 32;
  const Tile tile = tiling.tiles[tile_number];
  const TernaryScale scale = scales[tile.part];
  const Part part = tiling.parts[tile.part].part;
  key.tensor = part.tensor;
  const Elements elements{arena + tile.begin, tile.count,
                          part.first + uint64_t{tile.index} * kTile};
  auto* mask = reinterpret_cast<uint32_t*>(workspace.masks) + uint64_t{tile_number} * kTileWords;
  auto* signs = reinterpret_cast<uint32_t*>(workspace.signs) + uint64_t{tile_number} * kTileWords;
  const uint32_t num_signs = elements.AreAligned()
                                 ? EncodeTile<true>(elements, scale, key, keys, mask, memory)
                                 : EncodeTile<false>(elements, scale, key, keys, mask, memory);
  // WriteTiles may read one more word than there are words with signs.
  for (uint32_t word = lane; word < kTileWords && word * 32 < num_signs + 32; word += 32)
    signs[word] = memory->signs[word];
  if (lane == 0) workspace.num_ones[tile_number] = num_signs;
  const TiledChunk chunk = tiling.chunks[tile.chunk];
  const uint32_t chunk_tiles = chunk.tile_end - chunk.tile_begin;
  if (IsLastWarpOf(workspace.num_finished + tile.chunk, chunk_tiles))
    LayOutChunk(tiling, tile.chunk, workspace, sizes);
}

// The words of a tile in an array with kTileMaskBytes bytes for each tile.
__device__ const uint32_t* WordsOfTile(const uint8_t* tiles, uint32_t tile) {
  return reinterpret_cast<const uint32_t*>(tiles + uint64_t{tile} * kTileMaskBytes);
}

// Returns 32 bits of a tile's words, from bit `from` on. Bits after the last bit of the tile are
// zero.
__device__ uint32_t BitsOfTile(const uint32_t* tile_words, uint32_t from) {
  const uint32_t* words = tile_words + from / 32;
  const uint32_t shift = from % 32;
  const uint32_t low = words[0] >> shift;
  return shift == 0 || from / 32 + 1 == kTileWords ? low : low | words[1] << (32 - shift);
}

// The signs of the elements of a tile that fire.
struct TileSigns {
  const uint32_t* words;  // in shared memory
  uint32_t tile;          // number of the tile
  uint32_t begin_bit;     // index of the first sign among the signs of the part
  uint32_t count;
};

// Returns 32 signs of a part, from bit `begin_bit` of the part's signs on, which is one of the
// tile's. The part's tiles end before `tile_end`. Bits after the last sign are zero.
__device__ uint32_t SignsFrom(const TernaryWorkspace& workspace, const TileSigns& of_tile,
                              uint32_t tile_end, uint32_t begin_bit) {
  uint32_t signs = BitsOfTile(of_tile.words, begin_bit - of_tile.begin_bit);
  uint32_t num_signs = of_tile.begin_bit + of_tile.count - begin_bit;
  for (uint32_t next = of_tile.tile + 1; num_signs < 32 && next < tile_end; ++next) {
    signs |= BitsOfTile(WordsOfTile(workspace.signs, next), 0) << num_signs;
    num_signs += workspace.num_ones[next];
  }
  return signs;
}

static_assert(kTileMaskBytes == 32 * sizeof(uint4), "a warp copies the mask of a tile at once");

// Writes the mask of a tile, `num_bytes` bytes, to byte `begin` of the part's mask, `masks`. The
// threads of the warp have its bytes in `quarter_words`, 16 each; `tile_words` are the same bytes.
__device__ void WriteMask(const uint4& quarter_words, const uint32_t* tile_words, uint8_t* masks,
                          uint32_t begin, uint32_t num_bytes) {
  const uint32_t lane = threadIdx.x % 32;
  if (num_bytes == kTileMaskBytes &&
      reinterpret_cast<uintptr_t>(masks + begin) % sizeof(uint4) == 0) {
    reinterpret_cast<uint4*>(masks + begin)[lane] = quarter_words;
    return;
  }
  for (uint32_t i = lane;; i += 32) {
    const WordPiece piece = PieceOf(masks, begin, begin + num_bytes, i);
    if (!piece.HasBytes()) return;
    piece.Store(BitsOfTile(tile_words, 8 * (piece.begin - begin)));
  }
}

// Loads all that does not depend on other loads first, so that few latencies add up.
__global__ void __launch_bounds__(kThreads)
    WriteTiles(DeviceTiling tiling, TernaryWorkspace workspace, uint8_t* out) {
  __shared__ uint4 sign_words[kWarps][32];
  const uint32_t tile_number = TileOfWarp(), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (tile_number >= tiling.tile_count) return;
  const uint32_t* mask_words = WordsOfTile(workspace.masks, tile_number);
  const auto* all_signs = reinterpret_cast<const uint4*>(WordsOfTile(workspace.signs, tile_number));
  const uint4 mask = reinterpret_cast<const uint4*>(mask_words)[lane];
  sign_words[warp][lane] = all_signs[lane];
  const uint32_t ones_before = workspace.sign_offsets[tile_number],
                 num_signs = workspace.num_ones[tile_number];
  const Tile tile = tiling.tiles[tile_number];
  const uint64_t chunk_begin = tiling.chunks[tile.chunk].code_begin;
  const uint64_t mask_offset = workspace.mask_offsets[tile.part];
  const TiledPart part = tiling.parts[tile.part];
  const uint32_t first_sign = ones_before - workspace.sign_offsets[part.tile_begin];
  const uint32_t tile_end = part.tile_begin + TilesOf(part.part.count);
  uint8_t* masks = out + chunk_begin + mask_offset;
  uint8_t* signs = masks + BytesForBits(part.part.count);
  __syncwarp();  // The threads have stored sign_words.
  WriteMask(mask, mask_words, masks, tile.index * kTileMaskBytes,
            static_cast<uint32_t>(BytesForBits(tile.count)));
  // This warp writes the bytes of signs whose first bit belongs to its tile.
  const TileSigns of_tile{reinterpret_cast<const uint32_t*>(sign_words[warp]), tile_number,
                          first_sign, num_signs};
  const auto sign_begin = static_cast<uint32_t>(BytesForBits(first_sign));
  const auto sign_end = static_cast<uint32_t>(BytesForBits(uint64_t{first_sign} + num_signs));
  for (uint32_t i = lane;; i += 32) {
    const WordPiece piece = PieceOf(signs, sign_begin, sign_end, i);
    if (!piece.HasBytes()) return;
    piece.Store(SignsFrom(workspace, of_tile, tile_end, 8 * piece.begin));
  }
}

}  // namespace

int TernarizeOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                      const TernaryScale* scales, const NoiseKey& key,
                      const TernaryWorkspace& workspace, uint8_t* out, uint64_t* sizes) {
  const uint32_t blocks = (tiling.tile_count + kWarps - 1) / kWarps;
  const int error = Launch(CodeTiles, blocks, kThreads, stream, arena, tiling, scales, key,
                           PhiloxKeysOf(key.seed), workspace, sizes);
  if (error != 0) return error;
  return Launch(WriteTiles, blocks, kThreads, stream, tiling, workspace, out);
}

}  // namespace tern::kernels
