// Decides whether a worker's model (weights, gradients, optimizer state) stays on its GPU during
// training (worker/device/device_model.h), and how it is laid out there. If the model does not stay
// there, the CPU updates the weights and encodes the gradients, and both are copied in every step.
#pragma once

#include "common/update/optimizer.h"
#include "setup/setup.h"
#include "worker/device/device_model.h"

namespace tern::device {

// Returns whether the model stays on the GPU. For this, the worker must run a net on a GPU, the
// algorithm must allow it, the workers and not the servers must hold the weights, and the job must
// use a single codec, which has an implementation on a GPU and, with LARS, one scaler per tensor.
// `rank_job`: the job with this rank's overrides (config::JobForRank).
bool StaysOnDevice(const setup::Setup& setup, const pb::Job& rank_job);

// Returns the layout of the job's model. Its chunks, the ranges of elements that are encoded by
// themselves, are numbered as by ExchangePlan::ChunkIndex. `state_arrays`: how many state arrays
// the optimizer has.
DeviceModel::Layout LayoutOf(const setup::Setup& setup, size_t state_arrays);

// Returns the device array that holds the state array `slot` of the rule that updates local
// weights.
DeviceModel::LocalArray LocalArrayFor(const update::Optimizer::StateArray& slot);

}  // namespace tern::device
