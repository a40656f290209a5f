// Which jobs' models stay on a worker's GPU (engine/device_model.h), and how they lie there. What
// others do to weights and gradients is done on the CPU, and they travel every step.
#pragma once

#include "common/setup/setup.h"
#include "worker/engine/device_model.h"

namespace tern::train {

// Nothing but the exchange and local updates look at gradients, and nothing but the optimizer at
// weights: ssgd and odsgd with localized parameters, and codes of one kind that a GPU makes
// (engine::DeviceModel::Codes). `own`: the job as this rank has it (config::ForRank).
bool StaysOnDevice(const setup::Setup& setup, const pb::Job& own);

// Chunks are counted over all buckets.
engine::DeviceModel::Layout LayoutOf(const setup::Setup& setup, size_t slots);
uint32_t ChunkIndex(const protocol::ExchangePlan& plan, uint32_t bucket, uint32_t chunk);

}  // namespace tern::train
