// Encodes many tensors with ternary codes (ternary.h) on a GPU, in one launch. A warp encodes a
// tile:
//
//   1. decides which elements fire, and packs the signs of those, in shared memory
//   2. learns how many elements of its part fire before the tile (look_back.cuh)
//   3. learns where in the chunk its part begins, likewise: the warp of a part's last tile knows
//      how many bytes the part takes
//   4. writes the tile's mask and signs to the code of the chunk
//
// A part is a run of elements of one tensor that has a code of its own; a tile is a range of at
// most 4096 elements of a part; a chunk is neighbouring parts whose codes are sent together
// (kernels/device/tiling.h). An element "fires" if its code is not 0.
#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/codes/ternary.h"
#include "kernels/codes/ternary_math.h"
#include "kernels/codes/word_pieces.cuh"
#include "kernels/device/eight.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/look_back.cuh"
#include "kernels/device/tiling.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / 32;
// Thread blocks per multiprocessor. With more, threads have too few registers to load
// two runs before they compute.
[[maybe_unused]] constexpr uint32_t kResidentBlocks = 7;
constexpr uint32_t kTileMaskBytes = kTile / 8;       // bytes of a tile's mask
constexpr uint32_t kTileWords = kTileMaskBytes / 4;  // words of a tile's mask

__device__ uint64_t BytesForBits(uint64_t bits) { return (bits + 7) / 8; }

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
  alignas(uint4) uint32_t mask[kTileWords];  // the tile's mask
  uint32_t signs[kTileWords];                // the tile's packed signs
  // One bit per element of a section: whether it does not fire, and whether it is negative.
  uint32_t not_firing[32], negative[32];
  uint32_t tile_number;  // here, so that it takes no register while the tile is encoded
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

// Encodes the elements of a tile, in shared memory. Returns the number of signs.
template <bool kAligned>
__device__ uint32_t EncodeTile(const Elements& elements, const TernaryScale& scale,
                               const NoiseKey& key, const PhiloxKeys& keys, WarpMemory* memory) {
  const uint32_t lane = threadIdx.x % 32;
  const QuickScale quick_scale = QuickScaleOf(scale.scaler, scale.clip);
  for (uint32_t word = lane; word < kTileWords; word += 32) memory->signs[word] = 0;
  if (lane == 0) memory->exact_rule() = {scale, key};
  __syncwarp();
  uint32_t num_signs = 0, section = 0;
#pragma unroll 1
  for (; section < elements.count; section += kSection) {
    const Codes codes = EncodeSection<kAligned>(elements, section, quick_scale, key, keys, memory);
    memory->mask[section / 32 + lane] = codes.fires;
    num_signs = AppendSigns(codes, num_signs, memory->signs);
  }
  // BitsOf may read one more word than there are words with elements.
  if (section < kTile && lane == 0) memory->mask[section / 32] = 0;
  __syncwarp();
  return num_signs;
}

// Returns 32 bits of a tile's words, from bit `from` on. Bits after the last bit of the tile are
// zero.
__device__ uint32_t BitsOf(const uint32_t* tile_words, uint32_t from) {
  const uint32_t* words = tile_words + from / 32;
  const uint32_t shift = from % 32;
  const uint32_t low = words[0] >> shift;
  return shift == 0 || from / 32 + 1 == kTileWords ? low : low | words[1] << (32 - shift);
}

// What a warp knows of the signs of its part before its tile, `before`, and with it, `up_to`.
struct SignsOfPart {
  RunningBits before, up_to;
};

// Publishes the signs of a tile, and waits for those of the tiles of its part before it, the first
// of which is `first_tile`. Called by all threads of a warp.
__device__ SignsOfPart AddUpSigns(const uint32_t* tile_signs, uint32_t num_signs, uint32_t tile,
                                  uint32_t first_tile, uint64_t* tile_states) {
  const uint32_t last_seven = num_signs < 7 ? BitsOf(tile_signs, 0) << (7 - num_signs)
                                            : BitsOf(tile_signs, num_signs - 7) & 0x7F;
  const RunningBits own{num_signs, last_seven};
  if (tile == first_tile) {
    Publish(tile_states, tile, {RunningState::kTotal, own});
    return {{}, own};
  }
  Publish(tile_states, tile, {RunningState::kOwn, own});
  const RunningBits before = SumOfEarlier(tile_states, first_tile, tile);
  const uint32_t last = num_signs < 7 ? before.last >> num_signs | own.last : own.last;
  const RunningBits up_to{before.count + num_signs, last};
  Publish(tile_states, tile, {RunningState::kTotal, up_to});
  return {before, up_to};
}

// Returns at which byte of its chunk the code of a part begins. The warp of the part's last tile
// knows how many bytes it takes, and publishes it. Called by all threads of a warp.
__device__ uint64_t BeginOfPart(uint32_t part, const TiledChunk& chunk, bool has_last_tile,
                                uint64_t part_bytes, uint64_t* part_states) {
  const bool is_first = part == chunk.part_begin;
  if (has_last_tile && !is_first) Publish(part_states, part, {RunningState::kOwn, {part_bytes, 0}});
  const uint64_t begin = is_first ? 0 : SumOfEarlier(part_states, chunk.part_begin, part).count;
  if (has_last_tile) Publish(part_states, part, {RunningState::kTotal, {begin + part_bytes, 0}});
  return begin;
}

static_assert(kTileMaskBytes == 32 * sizeof(uint4), "a warp copies the mask of a tile at once");

// Writes the mask of a tile, `num_bytes` bytes, from byte `begin` of the part's mask, `masks`, on.
__device__ void WriteMask(const uint32_t* tile_mask, uint8_t* masks, uint32_t begin,
                          uint32_t num_bytes) {
  const uint32_t lane = threadIdx.x % 32;
  if (num_bytes == kTileMaskBytes &&
      reinterpret_cast<uintptr_t>(masks + begin) % sizeof(uint4) == 0) {
    reinterpret_cast<uint4*>(masks + begin)[lane] = reinterpret_cast<const uint4*>(tile_mask)[lane];
    return;
  }
  for (uint32_t i = lane;; i += 32) {
    const WordPiece piece = PieceOf(masks, begin, begin + num_bytes, i);
    if (!piece.HasBytes()) return;
    piece.Store(BitsOf(tile_mask, 8 * (piece.begin - begin)));
  }
}

// Writes the signs of a tile to the part's signs, `part_signs`: the bytes whose last bit is one of
// the tile's, and after the part's last tile the byte that remains.
__device__ void WriteSigns(const uint32_t* tile_signs, const SignsOfPart& signs, bool is_last_tile,
                           uint8_t* part_signs) {
  const auto begin = static_cast<uint32_t>(signs.before.count / 8),
             num_earlier = static_cast<uint32_t>(signs.before.count % 8);  // in the first byte
  const auto end =
      static_cast<uint32_t>(is_last_tile ? BytesForBits(signs.up_to.count) : signs.up_to.count / 8);
  for (uint32_t i = threadIdx.x % 32;; i += 32) {
    const WordPiece piece = PieceOf(part_signs, begin, end, i);
    if (!piece.HasBytes()) return;
    if (piece.begin == begin)
      piece.Store(BitsOf(tile_signs, 0) << num_earlier | signs.before.last >> (7 - num_earlier));
    else
      piece.Store(BitsOf(tile_signs, 8 * (piece.begin - begin) - num_earlier));
  }
}

// Sets the states of a chunk's tiles and parts to zero, for the next launch. Called by all threads
// of a warp.
__device__ void ForgetChunk(const TiledChunk& chunk, const TernaryWorkspace& workspace) {
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t i = chunk.tile_begin + lane; i < chunk.tile_end; i += 32)
    workspace.tile_states[i] = 0;
  for (uint32_t i = chunk.part_begin + lane; i < chunk.part_end; i += 32)
    workspace.part_states[i] = 0;
}

// Encodes a tile, in shared memory. Returns the number of signs.
__device__ uint32_t EncodeTileOf(const float* arena, const DeviceTiling& tiling,
                                 const TernaryScale* scales, NoiseKey key, const PhiloxKeys& keys,
                                 uint32_t tile_number, WarpMemory* memory) {
  const Tile tile = tiling.tiles[tile_number];
  const TernaryScale scale = scales[tile.part];
  const Part part = tiling.parts[tile.part].part;
  key.tensor = part.tensor;
  const Elements elements{arena + tile.begin, tile.count,
                          part.first + uint64_t{tile.index} * kTile};
  return elements.AreAligned() ? EncodeTile<true>(elements, scale, key, keys, memory)
                               : EncodeTile<false>(elements, scale, key, keys, memory);
}

// Writes an encoded tile to the code of its chunk. Loads what the tile belongs to again, so that it
// takes no registers while the tile is encoded.
__device__ void WriteTile(const DeviceTiling& tiling, const TernaryWorkspace& workspace,
                          uint32_t tile_number, uint32_t num_signs, const WarpMemory& memory,
                          uint8_t* out, uint64_t* sizes) {
  const Tile tile = tiling.tiles[tile_number];
  const TiledPart tiled = tiling.parts[tile.part];
  const TiledChunk chunk = tiling.chunks[tile.chunk];
  const SignsOfPart signs =
      AddUpSigns(memory.signs, num_signs, tile_number, tiled.tile_begin, workspace.tile_states);
  const uint64_t mask_bytes = BytesForBits(tiled.part.count);
  const bool is_last_tile = tile.index + 1 == TilesOf(tiled.part.count);
  const uint64_t part_bytes = mask_bytes + BytesForBits(signs.up_to.count);
  const uint64_t part_begin =
      BeginOfPart(tile.part, chunk, is_last_tile, part_bytes, workspace.part_states);
  if (tile_number + 1 == chunk.tile_end && threadIdx.x % 32 == 0)
    sizes[tile.chunk] = part_begin + part_bytes;
  uint8_t* masks = out + chunk.code_begin + part_begin;
  WriteMask(memory.mask, masks, tile.index * kTileMaskBytes,
            static_cast<uint32_t>(BytesForBits(tile.count)));
  WriteSigns(memory.signs, signs, is_last_tile, masks + mask_bytes);
  __syncwarp();  // No thread of the warp reads a state after this.
  if (IsLastWarpOf(workspace.num_finished + tile.chunk, chunk.tile_end - chunk.tile_begin))
    ForgetChunk(chunk, workspace);
}

// Encodes the first tiles first: a tile waits for those before it.
__global__ void __launch_bounds__(kThreads, kResidentBlocks)
    CodeTiles(const float* arena, DeviceTiling tiling, const TernaryScale* scales, NoiseKey key,
              PhiloxKeys keys, TernaryWorkspace workspace, uint8_t* out, uint64_t* sizes) {
  __shared__ WarpMemory memories[kWarps];
  const uint32_t tile_number = NumberOfBlock(workspace.num_begun) * kWarps + threadIdx.x / 32;
  if (tile_number >= tiling.tile_count) return;
  WarpMemory* memory = memories + threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) memory->tile_number = tile_number;
  const uint32_t num_signs = EncodeTileOf(arena, tiling, scales, key, keys, tile_number, memory);
  WriteTile(tiling, workspace, memory->tile_number, num_signs, *memory, out, sizes);
}

}  // namespace

int TernarizeOnDevice(DeviceStream stream, const float* arena, const DeviceTiling& tiling,
                      const TernaryScale* scales, const NoiseKey& key,
                      const TernaryWorkspace& workspace, uint8_t* out, uint64_t* sizes) {
  return Launch(CodeTiles, (tiling.tile_count + kWarps - 1) / kWarps, kThreads, stream, arena,
                tiling, scales, key, PhiloxKeysOf(key.seed), workspace, out, sizes);
}

}  // namespace tern::kernels
