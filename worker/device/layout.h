// Which jobs' models stay on a worker's GPU (worker/device/device_model.h), and their layout there.
// Other algorithms change weights and gradients on the CPU, so they travel every step.
#pragma once

#include "common/update/optimizer.h"
#include "setup/setup.h"
#include "worker/device/device_model.h"

namespace tern::device {

// True if only the exchange and local updates use gradients, and only the optimizer uses weights:
// ssgd and odsgd with localized parameters, and one codec that a GPU supports
// (codec::HasDeviceForm). `own`: the rank's own job (config::ForRank).
bool StaysOnDevice(const setup::Setup& setup, const pb::Job& own);

// Chunks are numbered over all buckets (ExchangePlan::ChunkIndex). `slots`: of the optimizer's
// state.
DeviceModel::Layout LayoutOf(const setup::Setup& setup, size_t slots);

// The array of a local updater's state.
DeviceModel::Local ArenaOf(const update::Optimizer::Slot& slot);

}  // namespace tern::device
