// OD-SGD's local update (local_step.h) on a GPU. A part is a run of elements of one tensor; one
// thread block updates a tile, that is, up to 4096 elements of a part (kernels/device/tiling.h).
#include <cuda_runtime.h>

#include "kernels/device/launch.cuh"
#include "kernels/device/tiling.h"
#include "kernels/update/local_step.h"

namespace tern::kernels {
namespace {

constexpr uint32_t kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    MoveTiles(DeviceTiling tiling, LocalStep step, const TensorRates* rates, LocalArenas model) {
  const Tile tile = tiling.tiles[blockIdx.x];
  const Part part = tiling.parts[tile.part].part;
  const TensorRates part_rates = rates[tile.part];
  const uint64_t begin = part.begin + uint64_t{tile.index} * kTile;
  const uint32_t count = CountOf(part, tile.index);
  for (uint32_t k = threadIdx.x; k < count; k += kThreads) {
    const uint64_t i = begin + k;
    const float reference = model.reference != nullptr ? model.reference[i] : 0;
    float velocity = step.has_momentum ? model.velocity[i] : 0;
    float mean_square = model.mean_square != nullptr ? model.mean_square[i] : 0;
    model.point[i] = ComputeLocalWeight(step, part_rates, model.weights[i], model.gradients[i],
                                        reference, &velocity, &mean_square);
    if (step.has_momentum) model.velocity[i] = velocity;
    if (model.mean_square != nullptr) model.mean_square[i] = mean_square;
  }
}

}  // namespace

int MoveLocallyOnDevice(DeviceStream stream, const DeviceTiling& tiling, const LocalStep& step,
                        const TensorRates* rates, const LocalArenas& model) {
  return Launch(MoveTiles, tiling.tile_count, kThreads, stream, tiling, step, rates, model);
}

}  // namespace tern::kernels
