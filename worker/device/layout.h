// Decides which jobs' models stay on a worker's GPU (worker/device/device_model.h), and their
// layout there. The algorithms of other jobs change weights and gradients on the CPU, so these are
// copied every step.
#pragma once

#include "common/update/optimizer.h"
#include "setup/setup.h"
#include "worker/device/device_model.h"

namespace tern::device {

// True if only the exchange and local updates use gradients, and only the optimizer uses weights:
// ssgd and odsgd with localized parameters, and one codec that has a device form
// (codec::HasDeviceForm). `own`: the rank's own job (config::ForRank).
bool StaysOnDevice(const setup::Setup& setup, const pb::Job& own);

// Chunks are numbered over all buckets (ExchangePlan::ChunkIndex). `state_arrays`: number of the
// optimizer's state arrays.
DeviceModel::Layout LayoutOf(const setup::Setup& setup, size_t state_arrays);

// The device array of a local updater's state array.
DeviceModel::Local LocalArrayFor(const update::Optimizer::StateArray& slot);

}  // namespace tern::device
