// Kernels that run on a GPU, as their callers see them. Each stands beside its CPU form (x_cuda.cu)
// and gives the same bits. They process many tensors of an arena at once, cut into tiles.
//
// All arrays are in device memory unless stated otherwise; launches are ordered on their stream and
// do not synchronize. Functions return a cudaError_t: 0 if the launch was accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/host_device_inl.h"
#include "kernels/local_step_inl.h"
#include "kernels/optimizer_inl.h"
#include "kernels/philox.h"
#include "kernels/stats.h"

struct CUstream_st;

namespace tern::kernels {

using DeviceStream = CUstream_st*;  // cudaStream_t

// Elements per tile: one block of stats.h, so that a thread block can reduce it alone.
constexpr uint32_t kTile = 4096;

TERN_HOST_DEVICE uint32_t TilesOf(uint64_t count) {
  return static_cast<uint32_t>((count + kTile - 1) / kTile);
}

// A run of elements of one tensor: a tensor, or a segment of a chunk.
struct Part {
  uint64_t begin = 0;  // in the arena
  uint64_t count = 0;  // 1 to 2^32 - 1
  uint64_t first = 0;  // index of its first element in the tensor
  uint32_t tensor = 0;
  uint32_t chunk = 0;  // parts of a chunk are adjacent; once cut into tiles, chunks count from 0
};

// How many elements of the part the tile has.
TERN_HOST_DEVICE uint32_t CountOf(const Part& part, uint32_t tile) {
  const uint64_t rest = part.count - uint64_t{tile} * kTile;
  return static_cast<uint32_t>(rest < kTile ? rest : kTile);
}

struct Tile {
  uint32_t part = 0;
  uint32_t index = 0;  // within its part
};

struct TiledPart {
  Part part;
  uint32_t tile_begin = 0;  // its first tile
};

struct TiledChunk {
  uint32_t part_begin = 0, part_end = 0;
  uint32_t tile_begin = 0, tile_end = 0;
  uint64_t out = 0;  // where its code begins: a multiple of 256
};

// In host memory; the caller copies the arrays to the device once.
struct Tiling {
  std::vector<Tile> tiles;
  std::vector<TiledPart> parts;
  std::vector<TiledChunk> chunks;
  uint64_t out_bytes = 0;  // buffer size for the codes of all chunks
};
Tiling CutIntoTiles(std::span<const Part> parts);

// The same on the device.
struct DeviceTiling {
  const Tile* tiles = nullptr;
  const TiledPart* parts = nullptr;
  const TiledChunk* chunks = nullptr;
  uint32_t tile_count = 0;
};

// Stats (stats.h) as plain words.
struct DeviceStats {
  double sum, sum_squares;
  float max_abs;
  uint32_t finite;
};
inline Stats ToStats(const DeviceStats& s) {
  return {s.sum, s.sum_squares, s.max_abs, s.finite != 0};
}

// stats[p] = ComputeStats of part p. `partial`: one per tile. `done`: one zeroed counter per part,
// reset on return. One launch.
[[nodiscard]] int ComputeStatsOnDevice(DeviceStream stream, const float* arena,
                                       const DeviceTiling& tiling, DeviceStats* partial,
                                       uint32_t* done, DeviceStats* stats);

// The scaler and clip of a part.
struct TernaryScale {
  float scaler = 0, clip = 0;
};

// Workspace. Uninitialized, except `done`: one zeroed counter per chunk, reset on return.
struct TernaryRoom {
  uint8_t* masks = nullptr;        // kTile / 8 bytes per tile
  uint8_t* signs = nullptr;        // as many
  uint32_t* ones = nullptr;        // per tile
  uint32_t* sign_bit = nullptr;    // per tile: where its signs begin among those of its part
  uint64_t* mask_begin = nullptr;  // per part: byte offset in the code of its chunk
  uint32_t* done = nullptr;        // per chunk
};

// Writes the code of chunk c, its parts one after the other as AppendMaskSigns writes them:
// sizes[c] bytes at out + chunks[c].out. key.tensor is ignored: each part's own is used. Two
// launches.
[[nodiscard]] int TernarizeOnDevice(DeviceStream stream, const float* arena,
                                    const DeviceTiling& tiling, const TernaryScale* scales,
                                    const NoiseKey& key, const TernaryRoom& room, uint8_t* out,
                                    uint64_t* sizes);

// Where the planes of a part's sum begin (planes.h: SumBits(contributors) planes, each of
// PlaneBytes(count) bytes), and the scaler of the sum.
struct SumPlace {
  uint64_t begin = 0;
  float scaler = 0;
};

// The arenas of a model on the device: the weights, and the state of the update rule (null where
// the rule has none).
struct ModelArenas {
  float* weights = nullptr;
  float* first = nullptr;   // momentum; Adam's m
  float* second = nullptr;  // Adam's v
};

// Decodes the means of `contributors` workers' codes (DecodeMean) and applies the update step with
// them, in one pass over the model. Increments *bad where a sum is invalid; outputs of those
// elements are unspecified. `rates`: one per part. REQUIRES 1 to 2047 contributors.
[[nodiscard]] int DecodeAndUpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                          const uint8_t* sums, const SumPlace* places,
                                          uint32_t contributors, const UpdateStep& step,
                                          const TensorRates* rates, const ModelArenas& model,
                                          uint32_t* bad);

// The two halves of it, for callers that need the means or bring their own: DecodeOnDevice writes
// the means to their parts of an arena, UpdateOnDevice applies a step with them.
[[nodiscard]] int DecodeOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                 const uint8_t* sums, const SumPlace* places, uint32_t contributors,
                                 float* means, uint32_t* bad);
[[nodiscard]] int UpdateOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                 const float* means, const UpdateStep& step,
                                 const TensorRates* rates, const ModelArenas& model);

// Adds the number of non-finite values to *bad.
[[nodiscard]] int CountNotFiniteOnDevice(DeviceStream stream, const float* x, size_t n,
                                         uint32_t* bad);

// half.h and optimizer.h, element by element.
[[nodiscard]] int FloatToHalfOnDevice(DeviceStream stream, const float* x, size_t n,
                                      uint16_t* half);
[[nodiscard]] int HalfToFloatOnDevice(DeviceStream stream, const uint16_t* half, size_t n,
                                      float* x);
[[nodiscard]] int FloatToBfloatOnDevice(DeviceStream stream, const float* x, size_t n,
                                        uint16_t* bfloat);
[[nodiscard]] int BfloatToFloatOnDevice(DeviceStream stream, const uint16_t* bfloat, size_t n,
                                        float* x);
[[nodiscard]] int ScaleOnDevice(DeviceStream stream, float* x, size_t n, float factor);
[[nodiscard]] int AddDecayOnDevice(DeviceStream stream, const float* g, const float* w, size_t n,
                                   float decay, float* out);
[[nodiscard]] int EmaUpdateOnDevice(DeviceStream stream, float* average, const float* w, size_t n,
                                    float one_minus_decay);

// A worker's local weights w' between two rounds (local_step_inl.h); null where the step has no
// such array. `reference` may be `point`.
struct LocalArenas {
  const float* weights = nullptr;  // W
  const float* gradients = nullptr;
  const float* reference = nullptr;  // the weights that the compensation assumes for the gradients
  float* velocity = nullptr;
  float* mean_square = nullptr;
  float* point = nullptr;  // w'
};
// w' = W + U_local(g) of all parts. `decay`: the weight decay of each part. One launch.
[[nodiscard]] int MoveLocallyOnDevice(DeviceStream stream, const DeviceTiling& tiling,
                                      const LocalStep& step, const float* decay,
                                      const LocalArenas& model);

}  // namespace tern::kernels
